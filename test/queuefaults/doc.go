// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queuefaults checks what a queue promises while it is broken in every way that
// this machine can break it: no acknowledged message is lost, none is there twice within
// the window of de-duplication, messages of a key keep their order, and none is changed.
//
// A History is what clients saw: every put, acknowledgement of a put, get and
// acknowledgement of a get. Check judges it and knows nothing of how it came about. The
// tests, with the build tag faults, run members of a queue as processes of the agent, put
// and get through their fronts, and meanwhile kill, stop, part, fill up, empty and restart
// them. They need no rights on the machine: everything happens in namespaces of their own,
// which end with them.
//
// # What a redelivery may do to the order
//
// Clients of NATS get the messages of a consumer that has one outstanding message at a time for the first time in the
// order in which they were put. A message that such a client did not acknowledge, or whose acknowledgement was not
// confirmed, may come again behind later ones. When a leader was disconnected from the others or stood still, messages
// may come again that were acknowledged, until it has heard that there is another. On a busy machine any member may
// stand still, so TestMinute judges everything but this of a queue of three: it is left to test-queue-faults.
//
// Clients of MessageService get a message of a key only when every earlier one of it was acknowledged or rejected, or
// is a dead letter. So a message comes again before any later one of its key is given to anybody, and not before the
// time is over for which it was somebody else's. A client may still hear late of a message that it was given before.
//
// A message leaves a queue only when somebody acknowledges it, or as a dead letter. A dead letter is there
// once, and in no order. A message that was rejected may be got again, too, if the queue did not confirm it.
//
// # What is run where
//
//	make test (test-queue-checker)  TestMinute, with the race detector in tests and members; the tests of Check
//	make test-queue-faults          all, each fault once, but for TestSkewedClocks and TestChannelBetweenThree; about 15 minutes
//	make test-queue-faults-long     TestThreeMembers for 11 minutes, the others for 5 each; about an hour
//
// # What is broken where
//
// Tests by what they break; where the package is not named, it is this one.
//
//	kill -9 of a member            TestMinute TestOneMember TestThreeMembers TestServiceOneMember TestServiceThreeMembers test/e2e:TestQueueOfThree
//	kill -9 of a channel's end     TestMinute TestChannel TestChannelBetweenThree agent/queue/channel:TestKills test/e2e:TestChannel
//	partition of members           TestMinute TestThreeMembers TestServiceThreeMembers agent/queue/store:TestCluster
//	partition beneath a channel    TestChannel TestChannelBetweenThree agent/queue/channel:TestOrderAndPartition
//	full disk                      TestOneMember TestThreeMembers TestServiceOneMember TestServiceThreeMembers TestChannel agent/queue/front:TestUnprovedAcknowledgement agent/queue/store:TestUnwritten agent/queue/ids:TestUnwritten
//	disk filled by the queue       TestFullByItself agent/queueagent:TestFullByItself agent/queueagent:TestDropsBeforeFull agent/queueagent:TestFilledByOthers agent/queueagent:TestOthersTakeNothing agent/queue/store:TestClosed agent/queue/store:TestSpaceTakesNothing
//	disk that allows no start      agent/queueagent:TestVolumeOfTheStart
//	a member's claim lost          TestThreeMembers TestServiceThreeMembers test/e2e:TestQueueOfThree
//	the only claim lost            controllers/queue:TestLoss controllers/queue:TestLossIsTold test/e2e:TestOnlyClaimLost
//	rolling restart under load     TestMinute TestOneMember TestThreeMembers TestServiceOneMember TestServiceThreeMembers TestChannel agent/queueagent:TestBothEnd test/e2e:TestQueueOfThree
//	clock skew                     TestSkewedClocks
//	oversized                      TestHostileClients agent/queue/front:TestRudeClients agent/queue/service:TestRefusedRequests agent/queue/channel:TestHostileMessages
//	empty                          TestOneMember TestServiceOneMember agent/queue/front:TestPutAndGet
//	poison                         TestServiceOneMember agent/queue/front:TestPoison agent/queue/dispatch:TestDeadLetters agent/queue/dispatch:TestNoRoomForDeadLetters agent/queue/store:TestSweepPoison
//	corrupted                      TestHostileClients TestDefectsAreFound agent/queue/message:TestDamage agent/queue/front:TestDamaged agent/queue/front:TestRefusedPuts agent/queue/service:TestDamaged
//	compressed bombs               TestHostileClients agent/queue/message:TestBombs agent/queue/front:TestRefusedPuts agent/queue/service:TestRefusedRequests agent/queue/channel:TestHostileMessages
//	a million tiny messages        TestTinyMessages
//	a consumer that never acks     agent/queue/front:TestNeverAcknowledged agent/queue/dispatch:TestVisibility agent/queue/dispatch:TestDeadLetters
//	deletion with messages         controllers/queue:TestLife controllers/queue:TestDeletionOfWhatDoesNotAnswer
//	storage shrunk                 controllers/queue:TestValidation agent/queueagent:TestLimitsThatCannotBeYet
//	ids after a restart            TestOneMember TestServiceOneMember agent/queueagent:TestPutAgainAfterRestart agent/queueagent:TestPutAgainByService
//	clients that take nothing      agent/queue/front:TestStuckClients agent/queue/front:TestUntaken agent/queue/front:TestMemory agent/queue/front:TestSlowHolder agent/queue/front:TestShed
//	ids, subscriptions and batches without end   agent/queue/ids:TestQuota agent/queue/front:TestQuota agent/queue/service:TestQuota agent/queue/front:TestManySubscriptions agent/queue/front:TestClientBatches agent/queue/front:TestBatches
//	dictionaries that change       all of this package, in members that put one into use every few seconds; TestMinute agent/queue/dictionary:TestLife agent/queue/dictionary:TestSecondLeader agent/queue/channel:TestKills agent/queue/channel:TestHostileDictionaries
//	a hot key                      agent/queue/dispatch:TestHotKey agent/queue/dispatch:TestHotKeys
//	revoked tokens and CAs         agent/queue/front:TestRevoked agent/queue/service:TestRevokedToken agent/queue/service:TestRevokedCA
package queuefaults
