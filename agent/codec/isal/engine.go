// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && isal

package isal

/*
#cgo pkg-config: libisal
#cgo CFLAGS: -O2

// The calls keep no pointer to Go's memory and never call back into Go.
#cgo noescape isal_block_deflate
#cgo nocallback isal_block_deflate
#cgo noescape isal_part_restart
#cgo nocallback isal_part_restart
#cgo noescape isal_part_deflate
#cgo nocallback isal_part_deflate
#cgo noescape isal_block_inflate
#cgo nocallback isal_block_inflate

#include <stdlib.h>

#include "block.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/lighterage/lighterage/agent/codec"
)

// Available reports whether this build contains the library.
func Available() bool { return true }

// Version returns the version of the library in this build.
func Version() string {
	v := C.isal_block_version()
	return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff)
}

// New returns the engine.
func New() (codec.Engine, error) { return engine{}, nil }

type engine struct{}

// Name implements codec.Engine.
func (engine) Name() string { return Name }

// Codec implements codec.Engine.
func (engine) Codec() codec.ID { return codec.Deflate }

// Class implements codec.Engine.
func (engine) Class() codec.Class { return codec.Software }

// HasLevel implements codec.Engine. docs/decisions/009-isa-l.md says why there is
// but one.
func (engine) HasLevel(level codec.Level) bool { return level == codec.Fast }

// NewEncoder implements codec.Engine.
func (e engine) NewEncoder(level codec.Level) (codec.Encoder, error) {
	made, err := e.newEncoder(level)
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (e engine) newEncoder(level codec.Level) (*encoder, error) {
	if !e.HasLevel(level) {
		return nil, fmt.Errorf("make an %s encoder: it has no level but %v, and this is %v", Name, codec.Fast, level)
	}
	stream := C.isal_block_deflate_new()
	if stream == nil {
		return nil, fmt.Errorf("make an %s encoder: the library has no memory", Name)
	}
	return &encoder{stream: stream}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) {
	made, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return made, nil
}

func newDecoder() (*decoder, error) {
	stream := C.isal_block_inflate_new()
	if stream == nil {
		return nil, fmt.Errorf("make an %s decoder: the library has no memory", Name)
	}
	return &decoder{stream: stream}, nil
}

type encoder struct {
	stream *C.struct_isal_block_deflater // nil after Close
}

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(src) > math.MaxInt32 {
		return 0, errTooLarge
	}
	// A stream is never longer than its block by more than the headers of the
	// blocks within; what dst has beyond 32 bits cannot be needed.
	space := min(len(dst), math.MaxUint32)
	return result(C.isal_block_deflate(e.stream, pointer(dst), C.uint32_t(space), pointer(src), C.uint32_t(len(src))))
}

// Restart implements codec.StreamEncoder.
func (e *encoder) Restart() error {
	if e.stream == nil {
		return codec.ErrClosed
	}
	C.isal_part_restart(e.stream)
	return nil
}

// EncodePart implements codec.StreamEncoder.
func (e *encoder) EncodePart(dst, src []byte, last bool) (int, error) {
	if e.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(src) > math.MaxInt32 {
		return 0, errTooLarge
	}
	space := min(len(dst), math.MaxUint32)
	return result(
		C.isal_part_deflate(e.stream, pointer(dst), C.uint32_t(space), pointer(src), C.uint32_t(len(src)), flag(last)),
	)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	C.isal_block_deflate_free(e.stream)
	e.stream = nil
	return nil
}

type decoder struct {
	stream *C.struct_isal_block_inflater // nil after Close
	// dictionary that blocks refer to; nil: none.
	dictionary []byte
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(dst) > math.MaxInt32 || len(src) > math.MaxInt32 {
		return 0, errTooLarge
	}
	return result(C.isal_block_inflate(
		d.stream, pointer(dst), C.uint32_t(len(dst)), pointer(src), C.uint32_t(len(src)), pointer(d.dictionary),
		C.uint32_t(len(d.dictionary)),
	))
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	C.free(unsafe.Pointer(d.stream))
	d.stream = nil
	return nil
}

var (
	errTooLarge = errors.New("isa-l takes buffers of less than 2 GiB")
	errBroken   = errors.New("isa-l refused a call that it should accept")
)

func pointer(b []byte) *C.uint8_t {
	return (*C.uint8_t)(unsafe.SliceData(b))
}

// result turns what a C function returned into what a method returns.
func result(n C.int64_t) (int, error) {
	switch n {
	case C.isal_block_does_not_fit:
		return 0, codec.ErrDoesNotFit
	case C.isal_block_corrupt:
		return 0, codec.ErrCorrupt
	case C.isal_block_truncated:
		return 0, codec.ErrTruncated
	case C.isal_block_trailing:
		return 0, codec.ErrTrailing
	case C.isal_block_too_long:
		return 0, codec.ErrTooLong
	}
	if n < 0 {
		return 0, errBroken
	}
	return int(n), nil
}
