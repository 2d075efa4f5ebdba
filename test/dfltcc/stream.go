// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc

/*
#include <stdint.h>
#include <stdlib.h>
#include <zlib-ng.h>

static int stream_call(zng_stream *s, int inflate, uint8_t *dst, uint32_t *dst_len, const uint8_t *src,
	uint32_t *src_len, int flush) {
	uint8_t none = 0;
	s->next_in = *src_len == 0 ? &none : src;
	s->avail_in = *src_len;
	s->next_out = *dst_len == 0 ? &none : dst;
	s->avail_out = *dst_len;
	int r = inflate ? zng_inflate(s, flush) : zng_deflate(s, flush);
	*src_len -= s->avail_in;
	*dst_len -= s->avail_out;
	s->next_in = NULL;
	s->next_out = NULL;
	return r;
}

static int stream_reproducible(zng_stream *s) {
	int yes = 1;
	zng_deflate_param_value p = {.param = Z_DEFLATE_REPRODUCIBLE, .buf = &yes, .size = sizeof(yes)};
	return zng_deflateSetParams(s, &p, 1);
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Format is what wraps a DEFLATE stream.
type Format int

// The formats. A zlib stream ends with an Adler-32, a gzip member with a CRC-32,
// both of which the instruction computes.
const (
	Raw  Format = -15
	Zlib Format = 15
	Gzip Format = 31
)

// Flush says how much of what was written has to come out.
type Flush int

// The ways to flush.
const (
	NoFlush   Flush = C.Z_NO_FLUSH
	SyncFlush Flush = C.Z_SYNC_FLUSH
	FullFlush Flush = C.Z_FULL_FLUSH
	Finish    Flush = C.Z_FINISH
)

// Status is what a call of zlib-ng returned.
type Status int

// The statuses that tests tell apart.
const (
	OK        Status = C.Z_OK
	End       Status = C.Z_STREAM_END
	BufError  Status = C.Z_BUF_ERROR
	DataError Status = C.Z_DATA_ERROR
)

// Stream is one of zlib-ng's, either way.
type Stream struct {
	c       *C.zng_stream
	inflate C.int
}

// NewDeflate returns a stream that compresses, in software alone when it has to be
// reproducible.
func NewDeflate(f Format, level int, reproducible bool) (*Stream, error) {
	s := &Stream{c: (*C.zng_stream)(C.calloc(1, C.sizeof_zng_stream))}
	if r := C.zng_deflateInit2(s.c, C.int(level), C.Z_DEFLATED, C.int(f), 8, C.Z_DEFAULT_STRATEGY); r != C.Z_OK {
		return nil, fmt.Errorf("zng_deflateInit2: %d", r)
	}
	if reproducible {
		if r := C.stream_reproducible(s.c); r != C.Z_OK {
			return nil, fmt.Errorf("zng_deflateSetParams: %d", r)
		}
	}
	return s, nil
}

// NewInflate returns a stream that expands.
func NewInflate(f Format) (*Stream, error) {
	s := &Stream{c: (*C.zng_stream)(C.calloc(1, C.sizeof_zng_stream)), inflate: 1}
	if r := C.zng_inflateInit2(s.c, C.int(f)); r != C.Z_OK {
		return nil, fmt.Errorf("zng_inflateInit2: %d", r)
	}
	return s, nil
}

// Call makes one call of zng_deflate or zng_inflate and returns how much of each
// buffer it used.
func (s *Stream) Call(dst, src []byte, flush Flush) (written, read int, status Status) {
	w, r := C.uint32_t(len(dst)), C.uint32_t(len(src))
	n := C.stream_call(
		s.c, s.inflate, (*C.uint8_t)(unsafe.SliceData(dst)), &w, (*C.uint8_t)(unsafe.SliceData(src)), &r, C.int(flush),
	)
	return int(w), int(r), Status(n)
}

// Close frees the stream.
func (s *Stream) Close() {
	if s.inflate != 0 {
		C.zng_inflateEnd(s.c)
	} else {
		C.zng_deflateEnd(s.c)
	}
	C.free(unsafe.Pointer(s.c))
}
