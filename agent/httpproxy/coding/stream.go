// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package coding

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"hash/crc32"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

// Stream is a body that is compressed in parts, each of which can be expanded when it
// arrives. It is not safe for concurrent use.
type Stream struct {
	coding  negotiate.Coding
	padding int
	begun   bool
	length  uint32
	crc     uint32
	adler   adler
}

// NewStream returns a stream that has not begun. Padding is that of Whole and goes
// into its beginning.
func NewStream(c negotiate.Coding, padding int) *Stream {
	return &Stream{coding: c, padding: padding, adler: 1}
}

// Part compresses the next part into dst, which must hold Bound(len(src), padding)
// bytes, and returns the length written. The encoder is that of the parts before.
func (s *Stream) Part(e codec.StreamEncoder, dst, src []byte, last bool) (int, error) {
	if !s.begun {
		if err := e.Restart(); err != nil {
			return 0, fmt.Errorf("begin a stream: %w", err)
		}
	}
	at, err := s.begin(dst)
	if err != nil {
		return 0, err
	}
	n, err := e.EncodePart(dst[at:], src, last)
	if err != nil {
		return 0, err
	}
	at += n
	// An empty part may write nothing, not even the frame's header.
	if s.coding == negotiate.Zstd && s.padding > 0 && at > 0 {
		if at, err = padZstd(dst, at, s.padding); err != nil {
			return 0, err
		}
		s.padding = 0
	}
	return s.end(dst, at, src, last)
}

// LonePart is Part for an encoder that made none of the parts before, and makes none
// of those that follow: the part refers to no other. There is none for zstd, whose
// frames cannot be joined.
func (s *Stream) LonePart(e codec.StreamEncoder, dst, src []byte, last bool) (int, error) {
	if s.coding == negotiate.Zstd {
		return 0, fmt.Errorf("a stream of %v has one encoder", s.coding)
	}
	if err := e.Restart(); err != nil {
		return 0, fmt.Errorf("begin a part: %w", err)
	}
	at, err := s.begin(dst)
	if err != nil {
		return 0, err
	}
	n, err := e.EncodePart(dst[at:], src, false)
	if err != nil {
		return 0, err
	}
	at += n
	if last {
		if len(dst) < at+len(deflateEnd) {
			return 0, codec.ErrDoesNotFit
		}
		at += copy(dst[at:], deflateEnd)
	}
	return s.end(dst, at, src, last)
}

// begin writes the header if nothing was written yet.
func (s *Stream) begin(dst []byte) (int, error) {
	if s.begun {
		return 0, nil
	}
	at, ok := 0, true
	switch s.coding {
	case negotiate.Gzip:
		at, ok = putGzipHeader(dst, s.padding)
	case negotiate.Deflate:
		at, ok = putZlibHeader(dst, s.padding)
	case negotiate.Zstd:
	default:
		return 0, errNoCoding
	}
	if !ok {
		return 0, codec.ErrDoesNotFit
	}
	return at, nil
}

// end counts the plain bytes of a part and writes the trailer behind the last one.
func (s *Stream) end(dst []byte, at int, src []byte, last bool) (int, error) {
	s.begun = true
	switch s.coding {
	case negotiate.Gzip:
		s.crc = crc32.Update(s.crc, crc32.IEEETable, src)
		s.length += uint32(len(src))
		if !last {
			return at, nil
		}
		if len(dst) < at+gzipTrailer {
			return 0, codec.ErrDoesNotFit
		}
		binary.LittleEndian.PutUint32(dst[at:], s.crc)
		binary.LittleEndian.PutUint32(dst[at+4:], s.length)
		return at + gzipTrailer, nil
	case negotiate.Deflate:
		s.adler.update(src)
		if !last {
			return at, nil
		}
		if len(dst) < at+zlibTrailer {
			return 0, codec.ErrDoesNotFit
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(s.adler))
		return at + zlibTrailer, nil
	default:
		return at, nil
	}
}

// adler is a running Adler-32.
type adler uint32

// update appends bytes to what the sum is of: the sum of a whole is made of those of
// its parts.
func (a *adler) update(p []byte) {
	const mod = 65521
	sum := adler32.Checksum(p)
	a1, b1 := uint64(*a&0xffff), uint64(*a>>16)
	a2, b2 := uint64(sum&0xffff), uint64(sum>>16)
	n := uint64(len(p)) % mod
	// The second sum began with 1 instead of a1, so each of n steps lacks a1-1.
	low := (a1 + a2 + mod - 1) % mod
	high := (b1 + b2 + n*(a1+mod-1)) % mod
	*a = adler(high<<16 | low)
}
