// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cargo is the form of files that rest compressed, as they travelled.
//
// A file of form Gzip is one gzip member (RFC 1952), one of form Zstd a sequence of Zstandard frames (RFC 8878): tools
// of others read them. They are written from blocks that crossed the wire, without expanding them:
//
//	Gzip   10 bytes of header; of each joinable block all but codec.JoinEnd, of each stored one DEFLATE's stored blocks
//	       and a flush; codec.JoinEnd; CRC-32 and length of the plain bytes
//	Zstd   of each block its frame, of each stored one a frame of raw blocks; of no block at all an empty frame
//
// Nothing else is in a file. What random access needs is beside it, in an Index: the lengths of each block, the
// checksum of its plain bytes and that of the bytes that rest. Blocks refer to nothing outside of themselves, so any of
// them is read alone. An index that is lost is made again from the file by Rebuild.
//
// Pack makes such a file of a plain one. Blocks then end at the borders of records, if it has some, and the index knows
// their numbers (Records). Package cargofile has names for files, on file systems and in object stores.
//
// A Writer trusts that a block expands to what its header says, since it does not expand it: whoever could be harmed by
// a wrong one reads it, with all its checksums, or has Reader.Scrub inflate it.
package cargo

import (
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

var (
	// ErrCorrupt says that a file or an index is not what a Writer wrote: damaged, truncated, longer, or of something
	// else. The errors below match it.
	ErrCorrupt = errors.New("corrupt cargo")
	// ErrIndex says that an index is none, or not the file's.
	ErrIndex = fmt.Errorf("%w: invalid index", ErrCorrupt)
	// ErrForeign says that a file was not written by a Writer, or that its damage leaves no way to tell.
	ErrForeign = fmt.Errorf("%w: no file of blocks that can be read apart", ErrCorrupt)

	// ErrForm says that a block is not of a kind that the form takes.
	ErrForm = errors.New("a block that cannot rest in this form")
	// ErrTooLong says that a file has more than MaxBlocks blocks.
	ErrTooLong = fmt.Errorf("a file of more than %d blocks", MaxBlocks)
)

// Form is how a file rests. Its number is permanent.
type Form uint8

// The forms.
const (
	// Gzip is one gzip member. It takes joinable and stored blocks.
	Gzip Form = 1
	// Zstd is a sequence of Zstandard frames. It takes blocks of codec Zstd and stored ones.
	Zstd Form = 2
	// Plain is the file as it is, with an index of its checksums. It takes stored blocks.
	Plain Form = 3
)

// String returns the form's name.
func (f Form) String() string {
	switch f {
	case Gzip:
		return "Gzip"
	case Zstd:
		return "Zstd"
	case Plain:
		return "Plain"
	default:
		return fmt.Sprintf("form %d", uint8(f))
	}
}

// Codec is that of the file's blocks that are not stored.
func (f Form) Codec() codec.ID {
	switch f {
	case Zstd:
		return codec.Zstd
	case Plain:
		return codec.None
	default:
		return codec.Deflate
	}
}

const (
	gzipHeader  = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" // no name, no time, no flags, unknown system
	gzipTrailer = 8
	gzipEnd     = len(codec.JoinEnd) + gzipTrailer

	// flush is an empty stored block of DEFLATE.
	flush      = "\x00\x00\x00\xff\xff"
	storedMost = 65535 // bytes in a stored block of DEFLATE

	zstdMagic = "\x28\xb5\x2f\xfd"
	zstdEmpty = zstdMagic + "\x20\x00\x01\x00\x00"
	rawHeader = len(zstdMagic) + 1 + 4
	// rawDescriptor says: a single segment, its size in 4 bytes.
	rawDescriptor = 0xa0
	rawMost       = 128 << 10 // bytes in a raw block of zstd
	rawBlock      = 3         // its header
)

// before is the length of what a file has before its first block.
func (f Form) before() int64 {
	if f == Gzip {
		return int64(len(gzipHeader))
	}
	return 0
}

// length is that of a file whose blocks take so many bytes.
func (f Form) length(blocks int64) int64 {
	switch {
	case f == Gzip:
		return int64(len(gzipHeader)) + blocks + int64(gzipEnd)
	case blocks == 0 && f == Zstd:
		return int64(len(zstdEmpty))
	default:
		return blocks
	}
}

// mostStored is the most bytes that a block of a length takes.
func (f Form) mostStored(plain int) int {
	switch f {
	case Gzip:
		return plain + (plain/storedMost+2)*len(flush)
	case Plain:
		return plain
	default:
		return plain + (plain/rawMost+1)*rawBlock + rawHeader
	}
}

// largest is the most bytes that any block takes.
func (f Form) largest() int { return f.mostStored(frame.MaxPlain) }
