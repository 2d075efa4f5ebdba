// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Ready, Reconciling and Stalled have the meaning that kstatus gives them. In parentheses are the
// kinds that have the condition or, below, conditions with the reason.
const (
	// ConditionReady (all kinds): True when the object is in the state that its spec asks for. A Transfer that is
	// Complete is Ready.
	ConditionReady = "Ready"
	// ConditionReconciling (all kinds): True while the manager or an agent works towards the spec, or waits to try
	// again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled (all kinds): True when a user or an administrator has to act. The message says what to do.
	ConditionStalled = "Stalled"
	// ConditionComplete (Transfer, CompressionTrial, Statement): True when a run ended with success. A Transfer is
	// Complete when the destination is synced and, if spec.verify asks for it, verified. A Statement is Complete while no
	// figure is known to be missing from it.
	ConditionComplete = "Complete"
	// ConditionFailed (Transfer, CompressionTrial): True when a run ended without success and no further
	// attempt follows.
	ConditionFailed = "Failed"
	// ConditionHardwareCompression (Transfer, HTTPEndpoint, Queue): True when the accelerator compressed, False when
	// something else did, with the reason. False is no failure.
	ConditionHardwareCompression = "HardwareCompression"
	// ConditionReceiptSigned (Transfer, Delivery): True when both clusters have signed the receipt of the last run, False
	// until then, with the reason. Absent without spec.receipt.
	ConditionReceiptSigned = "ReceiptSigned"
	// ConditionWithinObjective (Transfer): True while status.recoveryPoint is not older than spec.objective.maxAge, False
	// when it is or there is none, with the reason. Absent without spec.objective.
	ConditionWithinObjective = "WithinObjective"
	// ConditionWithinDeadline (Transfer): True while the run that is wanted is expected to be Complete by spec.deadline, or
	// was; False when it is not, Unknown while nobody can say, with the reason. Absent without spec.deadline, and while no
	// run is wanted.
	ConditionWithinDeadline = "WithinDeadline"
	// ConditionRecoverable (Drill): True when the last drill restored the copy, verified it, and met spec.objective; False
	// when it did not, with the reason. Absent until the first has ended.
	ConditionRecoverable = "Recoverable"
	// ConditionHooksSucceeded (Transfer): True when the hooks of the present or last run have succeeded, False when one
	// has failed, with the reason. Absent while they run, and without spec.source.hooks.
	ConditionHooksSucceeded = "HooksSucceeded"
	// ConditionDestinationFits (Transfer, Delivery): True when the destination's claim is as large as the template asks
	// for, False when it is smaller and was not made larger, with the reason. The run goes on in either case. Absent
	// without a template; a Transfer into another namespace or cluster has it in its Delivery.
	ConditionDestinationFits = "DestinationFits"
	// ConditionHistoryKept (Transfer, Delivery): True when the destination has a VolumeSnapshot of the last Complete
	// run whose snapshot was decided, False when none could be taken or it is not ready, with the reason. The run is
	// Complete in either case. Absent until then, and without spec.destination.snapshot.
	ConditionHistoryKept = "HistoryKept"
	// ConditionChannelCompression (Queue): True when the receiving Queue accepts one of the channel's codings, False
	// when messages travel uncompressed, with the reason. False is no failure. Absent until the channel has run.
	ConditionChannelCompression = "ChannelCompression"
	// ConditionArchived (Queue): True while the archive follows the queue, False when it is not written, with the
	// reason.
	ConditionArchived = "Archived"
	// ConditionRestored (Queue): True when all messages of the archive that spec.restore names are in the queue.
	ConditionRestored = "Restored"
	// ConditionFeatureConfirmed (NodeProfile): True when the accelerator that Node Feature Discovery announces on the
	// node passed the proof, False when it did not, with the reason. Absent where nothing is announced.
	ConditionFeatureConfirmed = "FeatureConfirmed"
	// ConditionCanaryFinished (CompressionPolicy): True when the canary was measured, False while it is, with the reason.
	// Absent without spec.canary.
	ConditionCanaryFinished = "CanaryFinished"
	// ConditionConnected (Peer): True while the gateways have control connections, by which the cluster that cannot be
	// dialled is asked for connections, False when they have none, with the reason. Absent without spec.connection Dial
	// or Listen.
	ConditionConnected = "Connected"
	// ConditionHandOffReady (ObjectStore): True while an agent connects Transfers of other clusters that come through the
	// store to this cluster's gateway, False when it does not, with the reason. Absent without spec.handOff.
	ConditionHandOffReady = "HandOffReady"
)

// Reasons of Transfer, Delivery and CompressionTrial conditions. Those why attempts end are in status.history of a
// Transfer as well.
const (
	// ReasonPending (Delivery, HTTPEndpoint, Queue): accepted; nothing has started yet.
	ReasonPending = "Pending"
	// ReasonScheduled (Transfer, Drill): the first run waits for the time of spec.schedule.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended (Transfer, TransferSet, Drill): spec.suspend keeps runs and attempts from starting. Set it to false
	// to continue.
	ReasonSuspended = "Suspended"
	// ReasonPausing (Transfer): the agents are being stopped, by spec.pause or the end of a window. The next state is
	// Paused, when their pods have ended.
	ReasonPausing = "Pausing"
	// ReasonPaused (Transfer, Delivery): spec.pause keeps agents from running. Set it to false: the run goes on from its
	// checkpoints. A Delivery is of one attempt, and the next one gets another.
	ReasonPaused = "Paused"
	// ReasonOutsideWindow (Transfer): runs are kept within spec.schedule.windows, and none is open or the open one ends
	// too soon. The run begins or goes on in the next one; the message has the time.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonWaitingForPrice (Transfer): spec.deadline.strategy is Cheapest, and the run costs less if it starts later. The
	// message has the time and what that saves. Set strategy to Soonest to have it start at once.
	ReasonWaitingForPrice = "WaitingForPrice"
	// ReasonStarting (Transfer, Delivery, CompressionTrial, ObjectStore): the agent's pod is being scheduled or started.
	ReasonStarting = "Starting"
	// ReasonOpening (Transfer, Delivery): the sending agent waits for the receiving agent to be ready.
	ReasonOpening = "Opening"
	// ReasonTransferring (Transfer, Delivery): data is moving.
	ReasonTransferring = "Transferring"
	// ReasonMeasuring (CompressionTrial): the agent takes the sample and measures.
	ReasonMeasuring = "Measuring"
	// ReasonRetrying (Transfer, CompressionTrial): an attempt ended early. The next one follows after a back-off; the
	// message has the reason and the time.
	ReasonRetrying = "Retrying"
	// ReasonGathering (Transfer): of several destinations, those that are ready wait up to a minute for the others, so
	// that one pod sends to all of them. One that gets ready later waits until that pod has ended.
	ReasonGathering = "Gathering"
	// ReasonDestinationsFailed (Transfer): of several destinations, those that the message names did not get everything.
	// status.destinations and their Transfers say why. A new value of the annotation lighterage.dev/run starts another
	// run, for all.
	ReasonDestinationsFailed = "DestinationsFailed"
	// ReasonSucceeded (Transfer, Delivery, CompressionTrial): the run is complete.
	ReasonSucceeded = "Succeeded"
	// ReasonDeleting (Transfer, Delivery): the object is being deleted: its agent is being ended and the peer told.
	ReasonDeleting = "Deleting"
	// ReasonQuotaExceeded (Transfer, Delivery, Queue): a DataQuota of the namespace, or a limit of the Peer or of the
	// cluster, does not allow this beside what runs or exists. It continues when there is enough; the message names the
	// limit.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonJobSuspended (Transfer, Delivery, CompressionTrial): the Job of the agent is suspended, as Kueue does until
	// it admits the Job. It starts when the Job is resumed.
	ReasonJobSuspended = "JobSuspended"

	// ReasonSourceNotFound (Transfer, CompressionTrial, Queue): what is to be read does not exist: the claim, the path
	// in it, the HTTPEndpoint or Queue of a trial, or the claim or ObjectStore of spec.restore. Create it or correct the
	// spec.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonDestinationNotFound (Transfer, Delivery, Queue): what is to be written does not exist: the namespace, the
	// claim, the receiving Queue of a channel, or the claim or ObjectStore of spec.archive. Create it or correct the spec.
	ReasonDestinationNotFound = "DestinationNotFound"
	// ReasonDestinationInUse (Transfer, Delivery, Queue): another object writes to the same place. Wait until it has
	// ended, or choose another place.
	ReasonDestinationInUse = "DestinationInUse"
	// ReasonDestinationFull (Transfer, Delivery, Queue): the destination has no free space. Free some, or enlarge the
	// volume.
	ReasonDestinationFull = "DestinationFull"
	// ReasonDestinationNotWritable (Transfer, Delivery, Queue): the agent has no permission to write at the
	// destination, or the volume is read-only.
	ReasonDestinationNotWritable = "DestinationNotWritable"
	// ReasonSourceNotReady (Transfer, CompressionTrial): no replica of the HTTPEndpoint, or no member of the Queue, that
	// the trial samples is ready; or the claim that is to be copied has no volume yet, because no pod has used it.
	ReasonSourceNotReady = "SourceNotReady"
	// ReasonSourceNotReadable (Transfer, CompressionTrial, Queue): the agent has no permission to read a file of the
	// source, or the source cannot be read. Change the permissions, or ask for privilege by
	// spec.podTemplate.securityContext.
	ReasonSourceNotReadable = "SourceNotReadable"
	// ReasonSourceEmpty (Transfer, CompressionTrial): the source has nothing: spec.delete would remove everything at
	// the destination, which spec.allowEmptySource allows; or there is nothing to sample.
	ReasonSourceEmpty = "SourceEmpty"
	// ReasonSourceInUse (Queue): clients have consumers on a Queue with a channel. Only one of them can have a message:
	// delete the consumers, or the channel.
	ReasonSourceInUse = "SourceInUse"
	// ReasonDestinationChanged (Transfer, Delivery): something else changed a file at the destination during an
	// attempt. A later attempt starts from what is there then.
	ReasonDestinationChanged = "DestinationChanged"
	// ReasonSourceChanged (Transfer, CompressionTrial, Queue): files of the source changed each time they were read;
	// move a snapshot, or stop the writer for the time of the run. Or the storage of a sending Queue was set back to an
	// older state; move its messages to a new Queue.
	ReasonSourceChanged = "SourceChanged"
	// ReasonVerificationFailed (Transfer, Delivery): the digests of both sides differ. Check memory and storage of the
	// receiving node if it comes again.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonPeerNotFound (Transfer, Delivery, Queue): the Peer that the spec names does not exist. Create it.
	ReasonPeerNotFound = "PeerNotFound"
	// ReasonStoreNotFound (Transfer): the ObjectStore of destination.via does not exist in the Transfer's namespace.
	ReasonStoreNotFound = "StoreNotFound"
	// ReasonPeerHasNoEndpoint (Transfer, Queue): the Peer has no endpoint, so nothing can be sent to it. Set
	// spec.endpoint of the Peer.
	ReasonPeerHasNoEndpoint = "PeerHasNoEndpoint"
	// ReasonPeerUnreachable (Transfer, Queue, Peer): the peer's gateway does not answer. Check spec.endpoint of the
	// Peer and the network.
	ReasonPeerUnreachable = "PeerUnreachable"
	// ReasonPeerUntrusted (Transfer, Queue, Peer): the certificate of one side does not verify against the
	// caBundle of the other side's Peer. Exchange the CAs again.
	ReasonPeerUntrusted = "PeerUntrusted"
	// ReasonPeerIncompatible (Transfer, Queue, Peer): the peer speaks no version of the protocol that this cluster
	// speaks. Upgrade the older one.
	ReasonPeerIncompatible = "PeerIncompatible"
	// ReasonNotGranted (Transfer, Delivery, Queue): no PeerGrant in the destination's namespace, or with source.peer in
	// that of the source, allows this. Create one there, or change it; the message says what it lacks.
	ReasonNotGranted = "NotGranted"
	// ReasonPullCycle (Transfer): a Transfer of another cluster pulls from a directory that a Transfer here pulls into, so
	// that data could go round. Pull from where the data come from, or into another directory.
	ReasonPullCycle = "PullCycle"
	// ReasonChannelCycle (Queue): channels between Queues of the namespace lead from this Queue back to it, so that
	// messages would go round. Send to another Queue, or take one of these channels away.
	ReasonChannelCycle = "ChannelCycle"
	// ReasonNotReceived (Transfer): the cluster that is pulled from says that the run is complete, and no Delivery here
	// is. Start another run with the annotation lighterage.dev/run.
	ReasonNotReceived = "NotReceived"
	// ReasonPulling (Transfer): the cluster that is pulled from was asked for the run. Its answer follows within a minute.
	ReasonPulling = "Pulling"
	// ReasonReceiptPending (Transfer, Delivery): the run is complete, and the other cluster has not signed its receipt
	// yet. If it lasts, check that the manager and the gateway of the other cluster run.
	ReasonReceiptPending = "ReceiptPending"
	// ReasonReceiptUnsupported (Transfer): spec.receipt is true and the other cluster is of a release without receipts.
	// Upgrade it, or set spec.receipt to false. Nothing was sent.
	ReasonReceiptUnsupported = "ReceiptUnsupported"
	// ReasonFormUnsupported (Transfer): files cannot rest in spec.destination.form: the other cluster is of a release
	// without forms or records, or a name of the source has no place beside those of the form. The message says which,
	// and what to do. Nothing rests half.
	ReasonFormUnsupported = "FormUnsupported"
	// ReasonVolumeModeMismatch (Transfer, Delivery): of source and destination, one claim has volumeMode: Block and the
	// other one not, or the other cluster is of a release without block volumes. Use claims of the same volumeMode. Of an
	// ObjectStore: the path holds files, or of the source no image of a block volume. Nothing was written.
	ReasonVolumeModeMismatch = "VolumeModeMismatch"
	// ReasonEncryptionMismatch (Transfer): archives are encrypted for none of the identities that the run has, or the run
	// has none; or they are not encrypted, and should be. The message says which, and what to do. Nothing was written.
	ReasonEncryptionMismatch = "EncryptionMismatch"
	// ReasonReceiptRejected (Transfer, Delivery): the other cluster signed, or asks to sign, something else than this one
	// has observed. Nothing more is signed. The message says what differs.
	ReasonReceiptRejected = "ReceiptRejected"
	// ReasonReceiptMissing (Transfer): a run has no receipt and will not get one, because the next one began before the
	// other cluster had signed, its Delivery was deleted or failed, or spec.receipt was set after its last attempt had
	// begun. The message says which.
	ReasonReceiptMissing = "ReceiptMissing"
	// ReasonPolicyNotFound (Transfer, CompressionTrial, HTTPEndpoint, Queue): the spec names a policy, and there is neither
	// a LocalCompressionPolicy with that name in the namespace nor a CompressionPolicy. Create one or correct
	// spec.compression.policyName.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonInvalidSpec (Transfer, TransferSet, Delivery, CompressionTrial, HTTPEndpoint, Queue, CompressionPolicy,
	// Tariff, ObjectStore, Drill): a value of the spec cannot be used. The message says which one and what to write.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPrivilegeNotAllowed (Transfer, CompressionTrial, HTTPEndpoint, Queue): spec.podTemplate asks for privilege
	// that the namespace does not allow, or that no agent gets. Annotate the namespace, or ask for less.
	ReasonPrivilegeNotAllowed = "PrivilegeNotAllowed"
	// ReasonUnschedulable (Transfer, Delivery, CompressionTrial, HTTPEndpoint, Queue, ObjectStore): the scheduler finds no
	// node for the agent. The message has its words.
	ReasonUnschedulable = "Unschedulable"
	// ReasonAgentNotStarted (Transfer, Delivery, CompressionTrial, HTTPEndpoint, ObjectStore): the agent's pod or its
	// container cannot be created or started. The message has the words of the API server or the kubelet.
	ReasonAgentNotStarted = "AgentNotStarted"
	// ReasonAgentLost (Transfer, Delivery, CompressionTrial, ObjectStore): the agent ended without a report, for example
	// because its node failed or it exceeded its memory limit.
	ReasonAgentLost = "AgentLost"
	// ReasonEvicted (Transfer, Delivery, CompressionTrial, ObjectStore): the cluster removed the agent's pod, for example
	// to drain its node. It does not count as a failed attempt.
	ReasonEvicted = "Evicted"
	// ReasonConnectionLost (Transfer, Delivery, CompressionTrial, Queue): the connection between the agents broke.
	ReasonConnectionLost = "ConnectionLost"
	// ReasonInvalidData (Transfer, Delivery, Queue): one side received data that the protocol does not allow, or an
	// archive is damaged.
	ReasonInvalidData = "InvalidData"
	// ReasonInternal (Transfer, Delivery, CompressionTrial, Queue, ObjectStore): an error without a better reason; the
	// message has it.
	ReasonInternal = "Internal"
	// ReasonAborted (Transfer, Delivery): the run was ended from outside, for example because its Transfer was deleted.
	ReasonAborted = "Aborted"
	// ReasonSuperseded (Transfer, Delivery): the receiving cluster knows a newer attempt, because the sending cluster
	// was restored from a backup. The next attempt follows that one.
	ReasonSuperseded = "Superseded"
	// ReasonStaging (Transfer): the snapshot or clone that the run is to read is being made, or that of an earlier run
	// removed.
	ReasonStaging = "Staging"
	// ReasonSnapshotsNotInstalled (Transfer, Delivery): the cluster has no VolumeSnapshots: the CRDs of
	// external-snapshotter are not installed. Install them, or use copyMethod Clone or Direct and no
	// spec.destination.snapshot.
	ReasonSnapshotsNotInstalled = "SnapshotsNotInstalled"
	// ReasonGroupSnapshotsNotInstalled (TransferSet): the cluster has no VolumeGroupSnapshots: the CRDs of
	// external-snapshotter are not installed. Install them, or remove spec.group.
	ReasonGroupSnapshotsNotInstalled = "GroupSnapshotsNotInstalled"
	// ReasonGroupSnapshotClassNotFound (TransferSet): the VolumeGroupSnapshotClass that spec.group names does not exist.
	// Create it or correct the spec.
	ReasonGroupSnapshotClassNotFound = "GroupSnapshotClassNotFound"
	// ReasonGroupNotPossible (TransferSet): a VolumeGroupSnapshot would be of other claims than those of the members, or a
	// claim cannot be in one. The message names the claim and says what to do.
	ReasonGroupNotPossible = "GroupNotPossible"
	// ReasonTakingGroupSnapshot (TransferSet): the VolumeGroupSnapshot that the members are to read is being taken.
	ReasonTakingGroupSnapshot = "TakingGroupSnapshot"
	// ReasonGroupSnapshotNotFound (Transfer): the VolumeGroupSnapshot that spec.source names does not exist, or has no
	// snapshot of the claim, for example because it was removed when all members had read it. Have the TransferSet make
	// another one by its annotation lighterage.dev/run, or name another one.
	ReasonGroupSnapshotNotFound = "GroupSnapshotNotFound"
	// ReasonStagingNotAllowed (Transfer, TransferSet): the manager may not make snapshots or claims in this cluster.
	// Install the chart with pointInTime.enabled, or use copyMethod Direct.
	ReasonStagingNotAllowed = "StagingNotAllowed"
	// ReasonSnapshotClassNotFound (Transfer): the VolumeSnapshotClass that the spec names, or a default one of the
	// volume's driver, does not exist. Create it or correct the spec.
	ReasonSnapshotClassNotFound = "SnapshotClassNotFound"
	// ReasonStorageClassNotFound (Transfer): the StorageClass of the copy does not exist. Create it or correct
	// spec.source.stagedStorageClassName.
	ReasonStorageClassNotFound = "StorageClassNotFound"
	// ReasonClassUnsuitable (Transfer, TransferSet): a class cannot be used for copies: it is of another driver than the
	// volume, or keeps what is deleted, so that every run would leave something behind. Name another class.
	ReasonClassUnsuitable = "ClassUnsuitable"
	// ReasonCopyMethodUnsupported (Transfer): the volume of the source is not of a CSI driver. Use copyMethod Direct.
	ReasonCopyMethodUnsupported = "CopyMethodUnsupported"
	// ReasonSnapshotFailed (Transfer, TransferSet): the driver cannot take the snapshot, for example because its pool is
	// full, or says that it needs more than ten times the size of the source. The message has its words.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonStagingTimedOut (Transfer, TransferSet): the copy was not ready within spec.source.stagingDeadline, and was
	// removed. Look at the driver, or raise the deadline.
	ReasonStagingTimedOut = "StagingTimedOut"
	// ReasonStagedCopyLost (Transfer): the snapshot or the claim that the run was to read was deleted or lost before an
	// agent could read it. The next attempt makes another copy.
	ReasonStagedCopyLost = "StagedCopyLost"
	// ReasonStagingRejected (Transfer, TransferSet): the API server rejects the snapshot or claim of the copy, for
	// example because of a ResourceQuota. The message has its words.
	ReasonStagingRejected = "StagingRejected"
	// ReasonWaitingForTrigger (Transfer): the claim has the annotation lighterage.dev/use-copy-trigger. Give its
	// annotation lighterage.dev/copy-trigger another value when the application is quiesced.
	ReasonWaitingForTrigger = "WaitingForTrigger"
	// ReasonCopyTriggerTimedOut (Transfer): the trigger did not change within 10 minutes. Nothing was copied. Look at what
	// sets it, or remove the annotation lighterage.dev/use-copy-trigger from the claim.
	ReasonCopyTriggerTimedOut = "CopyTriggerTimedOut"
	// ReasonSnapshotReady (Transfer, Delivery): the VolumeSnapshot of the last Complete run can be restored.
	ReasonSnapshotReady = "SnapshotReady"
	// ReasonTakingSnapshot (Transfer, Delivery): a run waits until the VolumeSnapshot of the destination after the run
	// before it, of this or another Transfer, is taken, for 10 minutes at most.
	ReasonTakingSnapshot = "TakingSnapshot"
	// ReasonSnapshotNotReady (Transfer, Delivery): the driver has not taken the VolumeSnapshot of the destination in 10
	// minutes, so there is none of that run; or it has taken it and cannot restore it yet, or not in 24 hours. Look at
	// the driver.
	ReasonSnapshotNotReady = "SnapshotNotReady"
	// ReasonSnapshotLost (Transfer, Delivery): the newest VolumeSnapshot of the destination was deleted by somebody else.
	ReasonSnapshotLost = "SnapshotLost"
	// ReasonSnapshotRejected (Transfer, Delivery): the API server rejects the VolumeSnapshot of the destination, for
	// example because of a ResourceQuota. The message has its words.
	ReasonSnapshotRejected = "SnapshotRejected"
	// ReasonSnapshotsNotAllowed (Transfer, Delivery): the manager may not make or see VolumeSnapshots in this cluster.
	// Install the chart with pointInTime.enabled, or remove spec.destination.snapshot.
	ReasonSnapshotsNotAllowed = "SnapshotsNotAllowed"
	// ReasonSnapshotsUnsupported (Transfer, Delivery): the volume of the destination is not of a CSI driver, or there
	// is none. Use another claim, or remove spec.destination.snapshot.
	ReasonSnapshotsUnsupported = "SnapshotsUnsupported"
	// ReasonTooManySnapshots (Transfer, Delivery): so many VolumeSnapshots of the destination are not ready, or cannot
	// be removed, that no other is taken. Look at the driver and at what keeps them.
	ReasonTooManySnapshots = "TooManySnapshots"
	// ReasonQuiescing (Transfer): the before-hook runs, or the after-hook of an earlier copy.
	ReasonQuiescing = "Quiescing"
	// ReasonBeforeHookFailed (Transfer): the Job of the before-hook failed, was deleted, or took longer than its timeout.
	// Nothing was read. Look at its log.
	ReasonBeforeHookFailed = "BeforeHookFailed"
	// ReasonBeforeHookRejected (Transfer): no Job can be made of a CronJob that a hook names: it does not exist, is not
	// suspended, or may not be a hook. The message says what to do.
	ReasonBeforeHookRejected = "BeforeHookRejected"
	// ReasonHooksNotAllowed (Transfer): the manager may not read CronJobs in this cluster. Install the chart with
	// hooks.enabled, or remove spec.source.hooks.
	ReasonHooksNotAllowed = "HooksNotAllowed"
	// ReasonAfterHookFailed (Transfer): the after-hook failed or could not be started, so the application may still be
	// quiesced. Run its CronJob by hand.
	ReasonAfterHookFailed = "AfterHookFailed"
	// ReasonHooksComplete (Transfer): the hooks have succeeded.
	ReasonHooksComplete = "HooksComplete"
	// ReasonCreatingDestination (Transfer, Delivery): the destination's claim is being created from the template.
	ReasonCreatingDestination = "CreatingDestination"
	// ReasonDestinationNotCreated (Transfer, Delivery): the API server rejects the claim that the template asks for: a
	// ResourceQuota is exhausted, or the manager may not create claims in that cluster (claimTemplates.enabled of the
	// chart). The message, or the event of the Delivery, has its words.
	ReasonDestinationNotCreated = "DestinationNotCreated"
	// ReasonDestinationLargeEnough (Transfer, Delivery): the claim is as large as the template asks for.
	ReasonDestinationLargeEnough = "DestinationLargeEnough"
	// ReasonDestinationTooSmall (Transfer, Delivery): the claim is smaller than the template asks for, and is used as it
	// is: its class does not allow expansion, a quota or a PeerGrant does not allow that size, or it was not created from
	// the template of this Transfer. The message says which. Make it larger, or expect DestinationFull.
	ReasonDestinationTooSmall = "DestinationTooSmall"
	// ReasonRecoveryPointRecent (Transfer): status.recoveryPoint is not older than spec.objective.maxAge.
	ReasonRecoveryPointRecent = "RecoveryPointRecent"
	// ReasonRecoveryPointTooOld (Transfer): it is older: no run that began since then is Complete. Look at the condition
	// Ready, at the schedule, and at how long runs take.
	ReasonRecoveryPointTooOld = "RecoveryPointTooOld"
	// ReasonNoRecoveryPoint (Transfer): no run is Complete yet, or, of a block volume, none since the last one began.
	ReasonNoRecoveryPoint = "NoRecoveryPoint"
	// ReasonDeadlineInReach (Transfer): the run is expected to be Complete by spec.deadline.
	ReasonDeadlineInReach = "DeadlineInReach"
	// ReasonDeadlineKept (Transfer): the last run was Complete by spec.deadline.
	ReasonDeadlineKept = "DeadlineKept"
	// ReasonDeadlineUnpredicted (Transfer): there are no figures yet that tell when the run will end: of an earlier run
	// that is Complete, or of its own data. Or it is suspended or paused.
	ReasonDeadlineUnpredicted = "DeadlineUnpredicted"
	// ReasonDeadlineOutOfReach (Transfer): the run is expected to end after spec.deadline, or has failed before. The message
	// has the earliest time. It goes on all the same. Raise bandwidthLimit, widen windows, or make deadline later.
	ReasonDeadlineOutOfReach = "DeadlineOutOfReach"
	// ReasonDeadlineMissed (Transfer): spec.deadline has passed, and the run was not Complete. It goes on all the same.
	ReasonDeadlineMissed = "DeadlineMissed"
	// ReasonMaxAttemptsReached (Transfer): all attempts that spec.maxAttempts allows have failed. Remove the cause in
	// the message, then ask for another run by the annotation lighterage.dev/run.
	ReasonMaxAttemptsReached = "MaxAttemptsReached"
)

// Reasons of HTTPEndpoint conditions, beside those that they share with others.
const (
	// ReasonServing (HTTPEndpoint, Queue): all replicas or members serve what the spec says.
	ReasonServing = "Serving"
	// ReasonRollingOut (HTTPEndpoint, Queue): replicas or members are being started, or do not use the present spec
	// yet.
	ReasonRollingOut = "RollingOut"
	// ReasonAddressNotAllowed (HTTPEndpoint, Queue, ObjectStore): a backend or an external server has an address that
	// agents may not dial, or is a Service of a namespace that does not consent. Correct the spec, or annotate that
	// namespace with lighterage.dev/allow-backends-from.
	ReasonAddressNotAllowed = "AddressNotAllowed"
	// ReasonBackendNotFound (HTTPEndpoint): the backend's Service, or its port, does not exist. Create it or correct
	// spec.backend.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonBackendUnhealthy (HTTPEndpoint): replicas report that the backend does not pass its health check.
	ReasonBackendUnhealthy = "BackendUnhealthy"
	// ReasonCertificateNotFound (HTTPEndpoint, Queue): the Secret that the spec names for TLS, or a key in it, does not
	// exist.
	ReasonCertificateNotFound = "CertificateNotFound"
	// ReasonCertificateInvalid (HTTPEndpoint, Queue): the Secret that the spec names for TLS holds no usable key pair.
	// Those that had a good one before continue to serve it.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonCertificateExpired (HTTPEndpoint, Queue): the certificate that is served has expired. Renew it in its
	// Secret.
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonNameConflict (HTTPEndpoint, Queue): an object that is needed, such as the Service, exists and belongs to
	// something else. Delete it, or choose another name.
	ReasonNameConflict = "NameConflict"
	// ReasonRefused (Transfer, TransferSet, Delivery, CompressionTrial, HTTPEndpoint, Queue, NodeProfile,
	// ObjectStore): the API server rejects what the object needs, for example because of a ResourceQuota or an admission
	// webhook. The message has its words.
	ReasonRefused = "Refused"
	// ReasonAgentUnreachable (HTTPEndpoint, Queue): replicas or members run but do not answer the manager.
	ReasonAgentUnreachable = "AgentUnreachable"
)

// Reasons of Queue conditions, beside those that they share with others.
const (
	// ReasonClaimsRemain (Queue): a former Queue of this name left claims, which may hold messages. Name them in
	// spec.storage.adopt, or delete them.
	ReasonClaimsRemain = "ClaimsRemain"
	// ReasonMessagesRemain (Queue): the Queue is being deleted and has messages, or does not say whether it has any.
	// Consume them, or annotate it with lighterage.dev/delete-messages.
	ReasonMessagesRemain = "MessagesRemain"
	// ReasonAuthenticationUnusable (Queue): members cannot use what spec.authentication names.
	ReasonAuthenticationUnusable = "AuthenticationUnusable"
	// ReasonExternalUnreachable (Queue): the external servers cannot be reached, or do not answer.
	ReasonExternalUnreachable = "ExternalUnreachable"
	// ReasonExternalUntrusted (Queue): the certificate of the external servers does not verify against
	// spec.engine.external.caBundle.
	ReasonExternalUntrusted = "ExternalUntrusted"
	// ReasonExternalRefused (Queue): the external servers reject the credentials, or do not permit what the Queue
	// needs.
	ReasonExternalRefused = "ExternalRefused"
	// ReasonExternalUnfit (Queue): the external servers lack what the Queue needs: they are too old, are without
	// JetStream, are too few or have no free space.
	ReasonExternalUnfit = "ExternalUnfit"
	// ReasonExternalInUse (Queue): a stream of the Queue's name exists in the external servers and is not this Queue's.
	// It is left alone.
	ReasonExternalInUse = "ExternalInUse"
	// ReasonNoLeader (Queue): no member leads, so no message can be published or consumed. It ends when a majority of
	// the members runs.
	ReasonNoLeader = "NoLeader"
	// ReasonMembersUnreachable (Queue): the leader does not reach the other members.
	ReasonMembersUnreachable = "MembersUnreachable"
	// ReasonChannelConnecting (Queue): the channel is being set up, or the sending member is not known yet.
	ReasonChannelConnecting = "ChannelConnecting"
	// ReasonNegotiated (Queue): the channel carries compressed messages.
	ReasonNegotiated = "Negotiated"
	// ReasonCodingsRefused (Queue): the receiving Queue accepts none of the channel's codings. Change its
	// spec.receiving, or offer others in spec.channel.codings.
	ReasonCodingsRefused = "CodingsRefused"
	// ReasonNoCodings (Queue): the channel offers no coding, by spec.channel.codings.
	ReasonNoCodings = "NoCodings"
	// ReasonArchiveFollows (Queue): the archive has what the queue had at the last look.
	ReasonArchiveFollows = "ArchiveFollows"
	// ReasonArchivePending (Queue): the leader has not written the archive yet, or does not say so.
	ReasonArchivePending = "ArchivePending"
	// ReasonRestoring (Queue): messages of the archive are being published into the queue. Clients are not served
	// meanwhile.
	ReasonRestoring = "Restoring"
	// ReasonRestored (Queue): all messages of the archive are in the queue, or were.
	ReasonRestored = "Restored"
	// ReasonClaimNotShared (Queue): members on several nodes cannot all mount the claim. Use one with the access mode
	// ReadWriteMany.
	ReasonClaimNotShared = "ClaimNotShared"
	// ReasonStorageFull (Queue): a member's volume is full. Consume messages, enlarge spec.storage.size, or remove what
	// else is on the volume.
	ReasonStorageFull = "StorageFull"
	// ReasonStorageFailed (Queue): a member's volume cannot be written, for example because it became read-only.
	ReasonStorageFailed = "StorageFailed"
	// ReasonMessagesLost (Queue): what kept the messages was lost, and an empty queue is in its place. Republish what
	// is known elsewhere, then acknowledge the loss by the annotation lighterage.dev/accept-loss.
	ReasonMessagesLost = "MessagesLost"
)

// Reasons of ObjectStore conditions, beside those that they share with others.
const (
	// ReasonProbing (ObjectStore, Queue): the store is being probed for the first time since the spec changed.
	ReasonProbing = "Probing"
	// ReasonPromisesKept (ObjectStore): the server does what Transfers need.
	ReasonPromisesKept = "PromisesKept"
	// ReasonPromiseNotKept (ObjectStore, Queue): the server, or what the credentials permit, lacks what Transfers need;
	// status.promises says what. Change the permissions, or use another server.
	ReasonPromiseNotKept = "PromiseNotKept"
	// ReasonStoreUnreachable (ObjectStore, Queue): the server does not answer, or has asked to come back later too often.
	ReasonStoreUnreachable = "StoreUnreachable"
	// ReasonStoreUntrusted (ObjectStore, Queue): the certificate of the server does not verify against spec.caBundle.
	ReasonStoreUntrusted = "StoreUntrusted"
	// ReasonStoreDenied (ObjectStore, Queue): the credentials are missing, wrong or expired, or do not permit to write.
	ReasonStoreDenied = "StoreDenied"
	// ReasonBucketNotFound (ObjectStore, Queue): the bucket does not exist. Create it or correct spec.bucket.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonStoreUnfit (ObjectStore, Queue): the server is no S3 store, has the bucket elsewhere, or rejects the storage
	// class or the encryption.
	ReasonStoreUnfit = "StoreUnfit"
	// ReasonClockSkew (ObjectStore, Queue): the clocks of node and server differ by more than S3 permits. Correct the one
	// that is wrong.
	ReasonClockSkew = "ClockSkew"
	// ReasonStoreFull (ObjectStore, Queue): the store is full or its quota is used up.
	ReasonStoreFull = "StoreFull"
	// ReasonRelaying (ObjectStore): the agent of spec.handOff runs.
	ReasonRelaying = "Relaying"
	// ReasonStoreNotReady (ObjectStore): the agent of spec.handOff waits until the store is Ready; that condition says
	// why it is not.
	ReasonStoreNotReady = "StoreNotReady"
	// ReasonGatewayNotFound (ObjectStore): the operator's namespace has no Service lighterage-gateway for the agent of
	// spec.handOff to connect to. Install the gateway.
	ReasonGatewayNotFound = "GatewayNotFound"
)

// Reasons of TransferSet conditions, beside those that they share with others.
const (
	// ReasonNoClaims (TransferSet): the selector finds no claim. Label claims, or correct spec.selector.
	ReasonNoClaims = "NoClaims"
	// ReasonMembersRunning (TransferSet): members are being made, or have runs under way.
	ReasonMembersRunning = "MembersRunning"
	// ReasonMembersComplete (TransferSet): the last run of every member is Complete.
	ReasonMembersComplete = "MembersComplete"
	// ReasonMembersFailed (TransferSet): members failed, or wait for somebody. The others continue. status.failures has
	// the reasons.
	ReasonMembersFailed = "MembersFailed"
	// ReasonMembersRejected (TransferSet): the API server rejects members, for example because of a ResourceQuota, an
	// admission policy, or a value that no Transfer takes. status.failures has its words.
	ReasonMembersRejected = "MembersRejected"
	// ReasonSetConflict (TransferSet): an older TransferSet of the namespace moves to the same destination, a Transfer or
	// TransferSet that the set did not make has the name of one that it is to make, or a TransferSet that it made was
	// changed. status.failures says which. Change the selector of a set, or rename or delete what is in the way.
	ReasonSetConflict = "SetConflict"
	// ReasonTooManySets (TransferSet): the namespace has more TransferSets than are compared with each other. The oldest
	// ones work. Delete some.
	ReasonTooManySets = "TooManySets"
	// ReasonNoNamespaces (TransferSet): spec.namespaceSelector finds no namespace. Label namespaces, or correct it.
	ReasonNoNamespaces = "NoNamespaces"
	// ReasonNamespaceNotWatched (TransferSet): spec.namespaceSelector finds a namespace that the operator does not watch.
	// Add it to watchNamespaces of the Helm chart, or have the selector leave it out.
	ReasonNamespaceNotWatched = "NamespaceNotWatched"
)

// Reasons of Drill conditions, beside those of Transfers, which say why a restore did not succeed.
const (
	// ReasonDrilling (Drill): a drill is under way. The message has what its Transfer says.
	ReasonDrilling = "Drilling"
	// ReasonRecovered (Drill): the last drill restored and verified the copy within spec.objective.
	ReasonRecovered = "Recovered"
	// ReasonVerified (Drill): the last drill verified the data where they rest, within spec.objective.
	ReasonVerified = "Verified"
	// ReasonDataDamaged (Drill): what rests is not what was written. status.run.findings name it. Run the Transfer that
	// writes it once more after removing it, or restore it from another copy.
	ReasonDataDamaged = "DataDamaged"
	// ReasonIndexUnusable (Drill): an index is missing, damaged, or does not tell the truth. status.run.findings name
	// what it is of. Of a file that ends in .gz or .zst make it again with lighterage-cargo rebuild; else run the Transfer
	// that writes the copy.
	ReasonIndexUnusable = "IndexUnusable"
	// ReasonCopyTooOld (Drill): the copy was restored, and is older than spec.objective.maxAge. Look at the Transfer that
	// writes it.
	ReasonCopyTooOld = "CopyTooOld"
	// ReasonCopyTimeUnknown (Drill): spec.objective.maxAge is set, and there is no index that says when the copy was
	// written. Have a Transfer write it, or remove maxAge.
	ReasonCopyTimeUnknown = "CopyTimeUnknown"
	// ReasonCopyIncomplete (Drill): files that the index of the copy names are not in the bucket, or cannot be restored
	// under their names. Run the Transfer that writes the copy, or restore the objects.
	ReasonCopyIncomplete = "CopyIncomplete"
	// ReasonRestoreTooSlow (Drill): the copy was restored, and took longer than spec.objective allows.
	ReasonRestoreTooSlow = "RestoreTooSlow"
	// ReasonRestoreTooCostly (Drill): the copy was restored, and took more CPU time than spec.objective allows.
	ReasonRestoreTooCostly = "RestoreTooCostly"
	// ReasonDeadlineExceeded (Drill): the restore had not ended by spec.deadline. The message has what it waited for.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonNameTaken (Drill): a Transfer with the name that the drill's needs is there, and belongs to somebody else.
	// Delete it, or create the Drill under another name.
	ReasonNameTaken = "NameTaken"
)
