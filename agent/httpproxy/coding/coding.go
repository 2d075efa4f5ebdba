// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coding makes the content codings of HTTP from what the engines of the
// codecs compress: the wrappings of gzip and zlib around DEFLATE, zstd as it is.
package coding

import (
	"encoding/binary"
	"errors"
	"hash/adler32"
	"hash/crc32"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// Codec returns the codec that a coding wraps.
func Codec(c negotiate.Coding) codec.ID {
	switch c {
	case negotiate.Gzip, negotiate.Deflate:
		return codec.Deflate
	case negotiate.Zstd:
		return codec.Zstd
	default:
		return codec.None
	}
}

const (
	gzipHeader  = 10
	gzipTrailer = 8
	zlibHeader  = 2
	zlibTrailer = 4

	// What padding costs at least: a subfield of gzip's header, an empty stored block
	// of DEFLATE, an empty block of zstd.
	gzipExtra  = 6
	emptyBlock = 5
	zstdBlock  = 3
)

// MaxPadding is the longest padding in bytes.
const MaxPadding = 16 << 10

// Overhead returns by how many bytes the usual coding of a body that a codec compressed is longer than what the codec
// made: those of gzip for DEFLATE.
func Overhead(id codec.ID) int {
	if id == codec.Deflate {
		return gzipHeader + gzipTrailer
	}
	return 0
}

// Bound returns the length in which every coding of n plain bytes with some padding
// fits, and every part of a stream.
func Bound(n, padding int) int {
	return codec.PartBound(n) + gzipHeader + gzipTrailer + gzipExtra + padding + emptyBlock
}

// deflateEnd is an empty last block of DEFLATE, which ends a stream of parts that do
// not refer to each other.
var deflateEnd = []byte{3, 0}

// Whole compresses a body in one go into dst and returns the length written. Padding
// is by how many bytes at least, up to MaxPadding, the result is to be longer than it
// would be; what is added has no meaning to who expands it. It returns
// codec.ErrDoesNotFit when dst is too short.
func Whole(e codec.Encoder, c negotiate.Coding, dst, src []byte, padding int) (int, error) {
	switch c {
	case negotiate.Gzip:
		return wholeGzip(e, dst, src, padding)
	case negotiate.Deflate:
		return wholeZlib(e, dst, src, padding)
	case negotiate.Zstd:
		return wholeZstd(e, dst, src, padding)
	default:
		return 0, errNoCoding
	}
}

var (
	errNoCoding = errors.New("identity is no coding to compress with")
	errFrame    = errors.New("an engine of zstd wrote something else")
)

func wholeGzip(e codec.Encoder, dst, src []byte, padding int) (int, error) {
	at, ok := putGzipHeader(dst, padding)
	if !ok || len(dst) < at+gzipTrailer {
		return 0, codec.ErrDoesNotFit
	}
	n, err := e.Encode(dst[at:len(dst)-gzipTrailer], src)
	if err != nil {
		return 0, err
	}
	at += n
	binary.LittleEndian.PutUint32(dst[at:], crc32.ChecksumIEEE(src))
	binary.LittleEndian.PutUint32(dst[at+4:], uint32(len(src)))
	return at + gzipTrailer, nil
}

// putGzipHeader writes a header without a name, a time or an operating system.
// Padding goes into a subfield that no program knows.
func putGzipHeader(dst []byte, padding int) (int, bool) {
	if padding <= 0 {
		return copy(dst, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), len(dst) >= gzipHeader
	}
	length := gzipHeader + gzipExtra + padding
	if len(dst) < length {
		return 0, false
	}
	at := copy(dst, "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff")
	binary.LittleEndian.PutUint16(dst[at:], uint16(4+padding))
	copy(dst[at+2:], "LY")
	binary.LittleEndian.PutUint16(dst[at+4:], uint16(padding))
	clear(dst[at+gzipExtra : length])
	return length, true
}

func wholeZlib(e codec.Encoder, dst, src []byte, padding int) (int, error) {
	at, ok := putZlibHeader(dst, padding)
	if !ok || len(dst) < at+zlibTrailer {
		return 0, codec.ErrDoesNotFit
	}
	n, err := e.Encode(dst[at:len(dst)-zlibTrailer], src)
	if err != nil {
		return 0, err
	}
	at += n
	binary.BigEndian.PutUint32(dst[at:], adler32.Checksum(src))
	return at + zlibTrailer, nil
}

// putZlibHeader writes a header for a window of 32 KiB, and padding as empty stored
// blocks, since the header has no space for any.
func putZlibHeader(dst []byte, padding int) (int, bool) {
	blocks := (padding + emptyBlock - 1) / emptyBlock
	if len(dst) < zlibHeader+blocks*emptyBlock {
		return 0, false
	}
	at := copy(dst, "\x78\x01")
	for range blocks {
		at += copy(dst[at:], "\x00\x00\x00\xff\xff")
	}
	return at, true
}

func wholeZstd(e codec.Encoder, dst, src []byte, padding int) (int, error) {
	n, err := e.Encode(dst, src)
	if err != nil || padding <= 0 {
		return n, err
	}
	return padZstd(dst, n, padding)
}

// padZstd puts empty blocks behind the header of the frame in the first n bytes.
func padZstd(dst []byte, n, padding int) (int, error) {
	header, ok := zstdHeader(dst[:n])
	if !ok {
		return 0, errFrame
	}
	blocks := (padding + zstdBlock - 1) / zstdBlock
	if len(dst) < n+blocks*zstdBlock {
		return 0, codec.ErrDoesNotFit
	}
	copy(dst[header+blocks*zstdBlock:], dst[header:n])
	clear(dst[header : header+blocks*zstdBlock])
	return n + blocks*zstdBlock, nil
}

// zstdHeader returns the length of a frame's header.
func zstdHeader(frame []byte) (int, bool) {
	if len(frame) < 5 || binary.LittleEndian.Uint32(frame) != 0xfd2fb528 {
		return 0, false
	}
	descriptor := frame[4]
	single := descriptor&0x20 != 0
	length := 5
	if !single {
		length++
	}
	length += []int{0, 1, 2, 4}[descriptor&3]
	switch descriptor >> 6 {
	case 0:
		if single {
			length++
		}
	case 1:
		length += 2
	case 2:
		length += 4
	case 3:
		length += 8
	}
	return length, length <= len(frame)
}
