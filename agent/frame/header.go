// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frame is the form in which blocks of data travel and are kept: a header
// of fixed length and a payload, which is the block compressed or as it is.
//
// Header, big-endian:
//
//	offset length
//	     0      4  magic "LGBK"
//	     4      1  version, 1 or 2
//	     5      1  flags: 1 is the last block of a stream, the others are 0
//	     6      1  codec
//	     7      1  class of the engine that compressed the block, 0 for codec none
//	     8      8  sequence number in the stream, from 0
//	    16      4  length of the plain block
//	    20      4  length of the payload
//	    24      8  XXH3-64 of the plain block; in version 2 its CRC-32
//	    32      8  XXH3-64 of the 32 bytes before
//
// Version 2 is for codec deflate alone and says that the payload is joinable (codec.EncodeJoinable). With the CRC-32
// a receiver makes a gzip member of such blocks without expanding them. Blocks of both versions may be in one stream.
//
// A payload is never longer than its plain block, since a block that does not
// shrink is stored. A stream ends with a block that says so: bytes that are
// missing or too many are errors.
//
// The checksums find damage. They do not find forgery; transport and storage
// authenticate what has to be.
package frame

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
)

const (
	// HeaderSize is the length of a header in bytes.
	HeaderSize = 40
	// MaxPlain is the length of the longest plain block in bytes.
	MaxPlain = 4 << 20
	// MaxBlock is the length of the longest block with its header in bytes.
	MaxBlock = HeaderSize + MaxPlain
	// DefaultBlock is the length in which streams are cut where nothing else
	// speaks for another.
	DefaultBlock = 1 << 20

	magic           = 0x4c47424b // "LGBK"
	version         = 1
	versionJoinable = 2

	flagLast = 1
)

// Header describes one block.
type Header struct {
	// Last says that the stream ends with this block.
	Last  bool
	Codec codec.ID
	// Class of the engine that compressed the block; NoClass for codec None.
	Class codec.Class
	// Seq is the block's number in its stream, from 0.
	Seq uint64
	// PlainLen is the length of the plain block, WireLen that of the payload.
	PlainLen uint32
	WireLen  uint32
	// Joinable says that the payload, of codec Deflate, is as codec.EncodeJoinable makes it.
	Joinable bool
	// Checksum is XXH3-64 of the plain block, or the CRC-32 of one that is joinable.
	Checksum uint64
}

// BlockLen returns the length of header and payload together.
func (h Header) BlockLen() int {
	return HeaderSize + int(h.WireLen)
}

// Append appends the header's bytes to dst. It does not check the fields.
func (h Header) Append(dst []byte) []byte {
	start := len(dst)
	var flags byte
	if h.Last {
		flags |= flagLast
	}
	dst = binary.BigEndian.AppendUint32(dst, magic)
	v := byte(version)
	if h.Joinable {
		v = versionJoinable
	}
	dst = append(dst, v, flags, byte(h.Codec), byte(h.Class))
	dst = binary.BigEndian.AppendUint64(dst, h.Seq)
	dst = binary.BigEndian.AppendUint32(dst, h.PlainLen)
	dst = binary.BigEndian.AppendUint32(dst, h.WireLen)
	dst = binary.BigEndian.AppendUint64(dst, h.Checksum)
	return binary.BigEndian.AppendUint64(dst, xxh3.Hash(dst[start:]))
}

// ParseHeader reads the header at the start of b and checks all of it, so that its
// lengths are within bounds and may be used to allocate. The errors match
// ErrCorrupt or, when a newer program wrote the header, are *VersionError or
// *CodecError.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes of a header of %d", ErrTruncated, len(b), HeaderSize)
	}
	b = b[:HeaderSize]
	if m := binary.BigEndian.Uint32(b); m != magic {
		return Header{}, fmt.Errorf("%w: a block does not start with %08x", ErrHeader, m)
	}
	// The header's checksum belongs to these versions; another may keep it elsewhere.
	v := b[4]
	if v != version && v != versionJoinable {
		return Header{}, &VersionError{Version: v}
	}
	if binary.BigEndian.Uint64(b[32:]) != xxh3.Hash(b[:32]) {
		return Header{}, fmt.Errorf("%w: its checksum does not match", ErrHeader)
	}
	flags := b[5]
	h := Header{
		Last:     flags&flagLast != 0,
		Codec:    codec.ID(b[6]),
		Class:    codec.Class(b[7]),
		Seq:      binary.BigEndian.Uint64(b[8:]),
		PlainLen: binary.BigEndian.Uint32(b[16:]),
		WireLen:  binary.BigEndian.Uint32(b[20:]),
		Joinable: v == versionJoinable,
		Checksum: binary.BigEndian.Uint64(b[24:]),
	}
	if flags&^flagLast != 0 {
		return Header{}, fmt.Errorf("%w: unknown flags %#x", ErrHeader, flags)
	}
	if err := h.check(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// check verifies that the fields make sense together.
func (h Header) check() error {
	switch {
	case !h.Codec.Valid():
		return &CodecError{Codec: h.Codec}
	case h.PlainLen > MaxPlain:
		return fmt.Errorf("%w: a plain block of %d bytes; the limit is %d", ErrHeader, h.PlainLen, MaxPlain)
	case h.Codec == codec.None && h.WireLen != h.PlainLen:
		return fmt.Errorf("%w: a stored block of %d bytes in a payload of %d", ErrHeader, h.PlainLen, h.WireLen)
	case h.Codec == codec.None && h.Class != codec.NoClass:
		return fmt.Errorf("%w: a stored block with engine %v", ErrHeader, h.Class)
	case h.Codec != codec.None && h.WireLen >= h.PlainLen:
		return fmt.Errorf("%w: a compressed block of %d bytes in a payload of %d", ErrHeader, h.PlainLen, h.WireLen)
	case h.Codec != codec.None && h.Class != codec.Software && h.Class != codec.Hardware:
		return fmt.Errorf("%w: a compressed block with engine %v", ErrHeader, h.Class)
	case h.Joinable && h.Codec != codec.Deflate:
		return fmt.Errorf("%w: a joinable block of codec %v", ErrHeader, h.Codec)
	case h.Joinable && h.Checksum > math.MaxUint32:
		return fmt.Errorf("%w: a CRC-32 of more than 32 bits", ErrHeader)
	}
	return nil
}

// longHash is the length beyond which XXH3-64 of some bytes is the lower half of XXH3-128 of them.
const longHash = 240

// sum returns the checksum of a plain block, whose XXH3-128 is known. XXH3-64 of a long one is its half.
func (h Header) sum(plain []byte, digest xxh3.Uint128) uint64 {
	switch {
	case h.Joinable:
		return uint64(crc32.ChecksumIEEE(plain))
	case len(plain) > longHash:
		return digest.Lo
	default:
		return xxh3.Hash(plain)
	}
}
