// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer holds the two ends of a Transfer, which moves a tree from a sender to a receiver over the Receiver
// service, and the tests that need both. What they share is in package protocol; neither end imports the other.
//
//	send: walk, announce ─── manifests ──> receive: compare with the destination
//	send: cut, pack      <── needs ─────── receive
//	send: read, compress ─── blocks ─────> receive: check, expand, stage, sync, name
//
// The manifests and needs travel on a session, which is a gRPC stream, the blocks on connections of their own, one for
// each worker of the sender, who has a processor's worth of work.
//
// # What is not sent
//
// Of a file that the receiver has another version of, the sender asks for digests and sends the parts that differ; of a
// sparse file it sends what is no hole. A segment says which parts of its chunk are not in the block. Files that change
// while they are read are taken back and announced again when everything else was sent.
//
// # Restart
//
// What was written is synced and recorded in a journal (see package journal) before more than an interval for each
// stream is at stake. A receiver takes over what earlier attempts of its run made safe and tells the sender so in its
// answers to the manifest; what it cannot prove comes whole.
//
// # Memory
//
// Announced files that are not complete cost protocol.EntryCost bytes and what the entry weighs each. The sender
// announces at most protocol.WindowBytes of them and goes on as they are sent; the receiver looks at no more than twice
// as much before what is on its way has come. Besides that, each of at most protocol.MaxStreams streams holds no more
// than 4 MiB on either side, and digests take 1 MiB. With chunks of 1 MiB that is 130 MiB at most, and 194 MiB for a
// receiver whose sender goes to its limits; agents have Go's collector keep the process below 256 MiB. The walk holds
// the names of the directories it has entered.
package transfer
