// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes down what a queue holds, and puts it into another queue.
//
// An archive is a directory, named for the queue and the moment at which its stream was made:
//
//	orders.20261121T202512.123456789Z/
//		00000000000000000001-00000000000000004711-1a2b3c4d.jsonl.gz
//		.00000000000000000001-00000000000000004711-1a2b3c4d.jsonl.gz.lgci
//		00000000000000004712-00000000000000005000-9f8e7d6c.jsonl.gz
//		.00000000000000004712-00000000000000005000-9f8e7d6c.jsonl.gz.lgci
//		index
//
// A range has the messages that the stream had, at the time of writing, from one sequence to another, in order. It
// rests in the form of package cargo, as one gzip member or as Zstandard frames (.zst), with the index of that package
// beside it. It consists of lines of JSON:
//
//	head       version of the form, queue, life of its stream, first sequence
//	messages   sequence, time, subject, headers, text
//	foot       last sequence, number of messages, length of their payloads as they were put
//
// A message has the fields of messageLine. What is not UTF-8, or would be more than twice as long with JSON's escapes,
// is in base64 in fields of other names. A payload that was compressed when it was put stays so, with the headers that
// say how (package message). Lines are compressed together, as the policy says; blocks end with a line where they can.
// A range is written before it has its name, and what is beside it first; the random number in the names keeps two
// members from writing the same.
//
// The index of the archive is a block of package frame with JSON in it: how far the archive has come, and which
// messages of it have left the queue since. It is replaced as a whole. An archive without it has all messages, but not
// which of them were still to be got.
//
// Former releases wrote ranges of blocks, with names that end in .range, and an index of version 1. They are read, and
// go on in the form above. Before that the index has version 2, which those releases reject. Such a range consists of
//
//	head     one block: JSON, as above
//	groups   three lengths of 4 bytes, big-endian: of the fields, of the payloads beside them, and the number of
//	         messages; then the fields, in one block or several, then the payloads, in blocks of their own
//	foot     one block, the last: JSON, as above
//
// In an object store each file is an object, named by the archive and the file with a slash between them. An object is
// put whole, so that no part of one is ever there, and a range and its index only if there is none of the name.
package archive

import (
	"time"

	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/queue/message"
)

const (
	// DefaultInterval is that between two looks for what was put, if nothing else is said.
	DefaultInterval = time.Minute
	// DefaultRangeBytes is the length of messages from which a file is closed, if nothing else is said.
	DefaultRangeBytes = 64 << 20

	// groupBytes is the length from which a group of messages was written.
	groupBytes = frame.DefaultBlock
	// maxHeaderBytes and maxSuffix bound what a message may have beside its payload.
	maxHeaderBytes = message.MaxLength
	maxSuffix      = 64 << 10
	// maxSection bounds the fields of a group, and the payloads beside them: less than groupBytes and one message more.
	maxSection = groupBytes + message.MaxLength + 2*maxHeaderBytes + maxSuffix
	// groupHead is the length of what a group begins with.
	groupHead = 12

	// maxRuns bounds how many runs of messages an index names that have left the queue, each with its first and their
	// number. What is beyond them is restored although it had left.
	maxRuns = 60_000

	// maxRanges bounds how many ranges an archive has, whose names are held in memory.
	maxRanges = 4_000_000
)
