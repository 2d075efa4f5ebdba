// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records which parts of unfinished files are on a receiver's disk, so that the next attempt of a run
// has only the rest sent.
//
// A journal is written by one receiver at a time, in the staging directory that it owns. It knows files that were begun
// and are not finished; a file that has its name is known by being there. So it is small: a file that is written at
// once never comes into it, and one of many chunks costs 16 bytes for each of them on disk.
//
// # Form
//
// All numbers are big-endian. A header is followed by batches:
//
//	header: magic (8 bytes), version (2), length of the identity (2), identity, XXH3-64 of all before (8)
//	identity: attempt (4), chunk size (4), length of the run's name (2), run, length of the sender's name (2), sender
//	batch: magic (4), length of the records (4), sequence from 1 (8), XXH3-64 of these fields and the records (8), records
//	file: 1 (1), number (8), size (8), modified (8), changed (8), mode (4), length of the path (2), path
//	range: 2 (1), number (8), first chunk (8), chunks (4), XXH3-128 of each (16 each)
//	done: 3 (1), number (8)
//
// A batch is on stable storage before the next one is written. One at the end that is not whole is what a crash left:
// it is dropped, and any shorter journal is true as well. One that is not whole with another one after it is damage:
// the journal is not trusted, which costs nothing but time.
//
// The checksums are against faults, not against people: who may write into the destination volume may also write the
// files.
//
// # Bounds
//
// State in memory is at most maxState bytes: fileCost and the length of the path for each unfinished file, spanCost for
// each range. A journal that asks for more, or is longer than maxSize, is not trusted; what would make it so is not
// recorded, and comes again after a break.
package journal

const (
	// Name of the journal in its directory.
	Name = "journal"
	// newName is where it is written again.
	newName = "journal.new"

	version = 1

	magic      = "LTRGJRNL"
	batchMagic = "LTRB"

	headerFixed = 8 + 2 + 2
	batchFixed  = 4 + 4 + 8 + 8
	checksum    = 8

	recordFile  = 1
	recordRange = 2
	recordDone  = 3

	// DigestSize is the length of a chunk's digest in bytes.
	DigestSize = 16

	// MaxNumber is the greatest number that a file may have.
	MaxNumber = 1 << 62

	maxName   = 512
	maxPath   = 4095
	maxBatch  = 1 << 20
	maxChunks = 4096 // of a range record

	maxSize  = 512 << 20
	maxState = 32 << 20
	fileCost = 256
	spanCost = 32

	// compactAt is the size from which a journal of mostly finished files is written again.
	compactAt = 1 << 20
)
