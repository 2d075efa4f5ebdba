// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes down what a queue holds, and puts it into another queue.
//
// An archive is a directory, named for the queue and the moment at which its stream was made:
//
//	orders.20261121T202512.123456789Z/
//		00000000000000000001-00000000000000004711.range
//		00000000000000004712-00000000000000005000.range
//		index
//
// A range has the messages that the stream had, at the time of writing, from one sequence to another, in order. It is a
// stream of blocks in the form of package frame: each has a checksum, the last one says so, and what is missing, too
// much or in the wrong place is an error. The blocks hold
//
//	head     one block: JSON with the form's version, the queue, the life of its stream, and the first sequence
//	groups   three lengths of 4 bytes, big-endian: of the fields, of the payloads beside them, and the number of messages;
//	         then the fields, in one block or several, then the payloads, in blocks of their own
//	foot     one block, the last: JSON with the last sequence and totals
//
// The fields of a message are sequence, time, subject and headers, and its payload unless it was compressed when it was
// put. Blocks of fields are compressed as the policy says, so that many small messages are compressed together.
// Payloads that were compressed are beside them, in blocks that are stored.
//
// The index is one block as well, with JSON in it: how far the archive has come, and which messages of it have left the
// queue since. It is replaced as a whole. An archive without it has all messages, but not which of them were still to
// be got.
//
// In an object store each file is an object, named by the archive and the file with a slash between them. An object is
// put whole, so that no part of one is ever there, and a range only if there is none of its name.
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

	// groupBytes is the length from which a group of messages is written.
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
