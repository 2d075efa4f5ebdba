// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zstdframe checks, before any engine sees them, that bytes are exactly
// one Zstandard frame (RFC 8878) of the kind that codec.Zstd stands for. It also
// writes the frame of a block that needs no engine (EncodeRepeat).
//
// The libraries are more generous than the codec: they skip frames that hold no
// data, expand several frames one after the other, look for dictionaries, and
// reserve whatever window a frame asks for. Checking in one place makes every
// engine refuse the same bytes with the same error. What is inside of compressed
// blocks is left to the engines.
package zstdframe

import (
	"encoding/binary"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

const (
	// MaxWindow is the longest window in bytes that a frame may ask for, unless the
	// whole block is its window. No encoder here looks further back than a block,
	// and blocks are not longer.
	MaxWindow = 4 << 20

	magic        = 0xfd2fb528
	maxBlock     = 128 << 10
	blockHeader  = 3
	typeRaw      = 0
	typeRLE      = 1
	typeReserved = 3
)

// Errors of frames that other programs may write and this codec does not use.
var (
	errMagic      = fmt.Errorf("%w: no zstd frame", codec.ErrCorrupt)
	errReserved   = fmt.Errorf("%w: a reserved bit or type in a zstd frame", codec.ErrCorrupt)
	errDictionary = fmt.Errorf("%w: a zstd frame with a dictionary that is not expected, or without one", codec.ErrCorrupt)
	errChecksum   = fmt.Errorf("%w: a zstd frame with a checksum of its own", codec.ErrCorrupt)
	errNoSize     = fmt.Errorf("%w: a zstd frame without its content size", codec.ErrCorrupt)
	errWindow     = fmt.Errorf("%w: a zstd frame with a window of more than %d bytes", codec.ErrCorrupt, MaxWindow)
	errBlock      = fmt.Errorf("%w: a zstd block that is too long", codec.ErrCorrupt)
)

// ContentSize checks that src is exactly one frame whose header promises at most
// space bytes, and returns how many it promises. Its time is bounded by len(src).
// All its errors match codec.ErrCorrupt.
func ContentSize(src []byte, space int) (int, error) {
	size, length, err := Next(src, space)
	if err == nil && length < len(src) {
		return 0, codec.ErrTrailing
	}
	return size, err
}

// ContentSizeWithDictionary is ContentSize for a frame that needs the dictionary with a number, which its header names
// in 4 bytes.
func ContentSizeWithDictionary(src []byte, space int, number uint32) (int, error) {
	size, length, err := next(src, space, number)
	if err == nil && length < len(src) {
		return 0, codec.ErrTrailing
	}
	return size, err
}

// Next is ContentSize for the frame that src begins with, whose length it returns as well.
func Next(src []byte, space int) (size, length int, err error) { return next(src, space, 0) }

// numberLength is the length of the number of a dictionary where there is one: numbers of zstddict are from 1<<16,
// which have no shorter form.
const numberLength = 4

// next is Next for frames with a dictionary; 0: without one.
func next(src []byte, space int, dictionary uint32) (size, length int, err error) {
	if len(src) < 5 {
		return 0, 0, codec.ErrTruncated
	}
	if binary.LittleEndian.Uint32(src) != magic {
		return 0, 0, errMagic
	}
	descriptor := src[4]
	single := descriptor&0x20 != 0
	switch {
	case descriptor&0x08 != 0:
		return 0, 0, errReserved
	case (descriptor&0x03 == 0x03) != (dictionary != 0) || descriptor&0x03 == 1 || descriptor&0x03 == 2:
		return 0, 0, errDictionary
	case descriptor&0x04 != 0:
		return 0, 0, errChecksum
	case !single && descriptor>>6 == 0:
		return 0, 0, errNoSize
	}

	rest := src[5:]
	var window uint64
	if !single {
		if len(rest) == 0 {
			return 0, 0, codec.ErrTruncated
		}
		base := uint64(1) << (10 + rest[0]>>3)
		window = base + base/8*uint64(rest[0]&7)
		rest = rest[1:]
		if window > MaxWindow {
			return 0, 0, errWindow
		}
	}
	if dictionary != 0 {
		if len(rest) < numberLength {
			return 0, 0, codec.ErrTruncated
		}
		if binary.LittleEndian.Uint32(rest) != dictionary {
			return 0, 0, errDictionary
		}
		rest = rest[numberLength:]
	}
	width := 1 << (descriptor >> 6)
	if len(rest) < width {
		return 0, 0, codec.ErrTruncated
	}
	promised := contentSize(rest[:width])
	if promised > uint64(space) {
		return 0, 0, codec.ErrTooLong
	}
	if single {
		window = promised
	}
	rest, err = skipBlocks(rest[width:], min(window, maxBlock))
	return int(promised), len(src) - len(rest), err
}

// contentSize reads the field of the frame's header, which has 1, 2, 4 or 8 bytes.
func contentSize(field []byte) uint64 {
	switch len(field) {
	case 1:
		return uint64(field[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(field)) + 256
	case 4:
		return uint64(binary.LittleEndian.Uint32(field))
	default:
		return binary.LittleEndian.Uint64(field)
	}
}

// skipBlocks follows the headers of a frame's blocks to its end and returns what follows.
func skipBlocks(rest []byte, longest uint64) ([]byte, error) {
	for {
		if len(rest) < blockHeader {
			return nil, codec.ErrTruncated
		}
		header := uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16
		last, kind, length := header&1 != 0, header>>1&3, int(header>>3)
		if kind == typeReserved {
			return nil, errReserved
		}
		if uint64(length) > longest {
			return nil, errBlock
		}
		if kind == typeRLE {
			length = 1 // the byte that is repeated
		}
		rest = rest[blockHeader:]
		if len(rest) < length {
			return nil, codec.ErrTruncated
		}
		rest = rest[length:]
		if last {
			return rest, nil
		}
	}
}
