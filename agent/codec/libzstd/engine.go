// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && libzstd

package libzstd

/*
#cgo pkg-config: libzstd
#cgo CFLAGS: -O2

// The calls keep no pointer to Go's memory that they follow later and never call
// back into Go.
#cgo noescape block_compress
#cgo nocallback block_compress
#cgo noescape zstd_part_restart
#cgo nocallback zstd_part_restart
#cgo noescape zstd_part_compress
#cgo nocallback zstd_part_compress
#cgo noescape block_decompress
#cgo nocallback block_decompress
#cgo noescape zstd_compress_dictionary
#cgo nocallback zstd_compress_dictionary
#cgo noescape zstd_decompress_dictionary
#cgo nocallback zstd_decompress_dictionary

#include "block.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
)

// Available reports whether this build contains the library.
func Available() bool { return true }

// Version returns the version of the library in this build.
func Version() string { return C.GoString(C.ZSTD_versionString()) }

// New returns the engine.
func New() (codec.Engine, error) {
	return engine{}, nil
}

type engine struct{}

// Name implements codec.Engine.
func (engine) Name() string { return Name }

// Codec implements codec.Engine.
func (engine) Codec() codec.ID { return codec.Zstd }

// Class implements codec.Engine.
func (engine) Class() codec.Class { return codec.Software }

// compressLevel maps a level to the library's. docs/decisions/010-zstd.md has the
// measurements. Up to level 7 no window is longer than zstdframe.MaxWindow.
func compressLevel(level codec.Level) (C.int, bool) {
	switch level {
	case codec.Fast:
		return 1, true
	case codec.Balanced:
		return 3, true
	case codec.High:
		return 7, true
	default:
		return 0, false
	}
}

// HasLevel implements codec.Engine.
func (engine) HasLevel(level codec.Level) bool {
	_, ok := compressLevel(level)
	return ok
}

// NewEncoder implements codec.Engine.
func (engine) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := newEncoder(level)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func newEncoder(level codec.Level) (*encoder, error) {
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	context := C.block_compress_new(n)
	if context == nil {
		return nil, fmt.Errorf("make a %s encoder of level %d: %w", Name, n, errNoMemory)
	}
	return &encoder{context: context}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) {
	d, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newDecoder() (*decoder, error) {
	context := C.ZSTD_createDCtx()
	if context == nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, errNoMemory)
	}
	return &decoder{context: context}, nil
}

type encoder struct {
	context *C.ZSTD_CCtx // nil after Close
	// dictionary: frames name one.
	dictionary bool
}

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.context == nil {
		return 0, codec.ErrClosed
	}
	if !e.dictionary {
		if n, ok, err := zstdframe.EncodeRepeat(dst, src); ok {
			return n, err
		}
	}
	return result(C.block_compress(e.context, pointer(dst), C.size_t(len(dst)), pointer(src), C.size_t(len(src))))
}

// Restart implements codec.StreamEncoder.
func (e *encoder) Restart() error {
	if e.context == nil {
		return codec.ErrClosed
	}
	if C.zstd_part_restart(e.context) != 0 {
		return errBroken
	}
	return nil
}

// EncodePart implements codec.StreamEncoder.
func (e *encoder) EncodePart(dst, src []byte, last bool) (int, error) {
	if e.context == nil {
		return 0, codec.ErrClosed
	}
	var end C.int
	if last {
		end = 1
	}
	return result(C.zstd_part_compress(e.context, pointer(dst), C.size_t(len(dst)), pointer(src), C.size_t(len(src)), end))
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	if e.context != nil {
		C.ZSTD_freeCCtx(e.context)
		e.context = nil
	}
	return nil
}

type decoder struct {
	context *C.ZSTD_DCtx // nil after Close
	// dictionary is the number of the one that frames need; 0: none.
	dictionary uint32
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.context == nil {
		return 0, codec.ErrClosed
	}
	size, err := zstdframe.ContentSizeWithDictionary(src, len(dst), d.dictionary)
	if err != nil {
		return 0, err
	}
	return result(C.block_decompress(d.context, pointer(dst), C.size_t(size), pointer(src), C.size_t(len(src))))
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	if d.context != nil {
		C.ZSTD_freeDCtx(d.context)
		d.context = nil
	}
	return nil
}

var (
	errNoMemory = errors.New("the library has no memory")
	errBroken   = errors.New("libzstd refused a call that it should accept")
)

func pointer(b []byte) *C.uint8_t {
	return (*C.uint8_t)(unsafe.SliceData(b))
}

// result turns what a C function returned into what a method returns.
func result(n C.int64_t) (int, error) {
	switch n {
	case C.block_does_not_fit:
		return 0, codec.ErrDoesNotFit
	case C.block_corrupt:
		return 0, codec.ErrCorrupt
	case C.block_too_long:
		return 0, codec.ErrTooLong
	case C.block_no_memory:
		return 0, errNoMemory
	}
	if n < 0 {
		return 0, errBroken
	}
	return int(n), nil
}
