// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer moves a tree from a sender to a receiver over the Receiver service.
//
// The sender walks its tree and announces entries in manifests; the receiver makes directories and links, compares
// files with what it has and answers which it needs. Files are cut into chunks, and what is shorter than a chunk shares
// a block with others. Each worker of the sender has a processor's worth of work: it reads, digests, compresses and
// sends over a Data stream and a connection of its own. The receiver checks what it is told against what was announced,
// writes the pieces into staged files, reads them back where that is asked for, and gives a file its name when all of
// it is there.
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
// Announced files that are not complete cost entryCost bytes and what the entry weighs each. The sender announces at
// most windowBytes of them and goes on as they are sent; the receiver looks at no more than twice as much before what
// is on its way has come. Besides that, each of at most MaxStreams streams holds no more than 4 MiB on either side, and
// digests take 1 MiB. With chunks of 1 MiB that is 130 MiB at most, and 194 MiB for a receiver whose sender goes to its
// limits; agents have Go's collector keep the process below 256 MiB. The walk holds the names of the directories it has
// entered.
package transfer

const (
	// A manifest is sent when it has batchEntries or batchBytes of paths.
	batchEntries = 1024
	batchBytes   = 256 << 10
)
