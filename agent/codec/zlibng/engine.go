// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && zlibng

package zlibng

/*
#cgo pkg-config: zlib-ng
#cgo CFLAGS: -O2

// The calls keep no pointer to Go's memory and never call back into Go.
#cgo noescape block_deflate
#cgo nocallback block_deflate
#cgo noescape part_restart
#cgo nocallback part_restart
#cgo noescape part_deflate
#cgo nocallback part_deflate
#cgo noescape part_stored
#cgo nocallback part_stored
#cgo noescape block_inflate
#cgo nocallback block_inflate

#include "block.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/servicetime"
)

// Available reports whether this build contains the library.
func Available() bool { return true }

// Version returns the version of the library in this build.
func Version() string { return C.GoString(C.zlibng_version()) }

// New returns the engine that the options describe.
func New(o Options) (codec.Engine, error) {
	return engine{o}, nil
}

type engine struct{ options Options }

// Name implements codec.Engine.
func (e engine) Name() string { return e.options.name() }

// Codec implements codec.Engine.
func (e engine) Codec() codec.ID { return codec.Deflate }

// Class implements codec.Engine.
func (e engine) Class() codec.Class {
	if e.options.Hardware {
		return codec.Hardware
	}
	return codec.Software
}

// compressLevel maps a level to the library's. docs/decisions/002-deflate-levels.md
// has the measurements. DFLTCC knows no levels; it takes all of these.
func compressLevel(level codec.Level) (C.int, bool) {
	switch level {
	case codec.Fast:
		return 1, true
	case codec.Balanced:
		return 4, true
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
func (e engine) NewEncoder(level codec.Level) (codec.Encoder, error) {
	made, err := e.newEncoder(level)
	if err != nil {
		return nil, err
	}
	if e.options.Hardware {
		return &hardwareEncoder{*made}, nil
	}
	return made, nil
}

func (e engine) newEncoder(level codec.Level) (*encoder, error) {
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", e.Name(), level)
	}
	stream := C.block_deflate_new(n, flag(e.options.Hardware))
	if stream == nil {
		return nil, fmt.Errorf("make a %s encoder of level %d: the library has no memory", e.Name(), n)
	}
	return &encoder{stream: stream, obstacle: OtherObstacle}, nil
}

// NewDecoder implements codec.Engine.
func (e engine) NewDecoder() (codec.Decoder, error) {
	made, err := e.newDecoder()
	if err != nil {
		return nil, err
	}
	if e.options.Hardware {
		return &hardwareDecoder{*made}, nil
	}
	return made, nil
}

func (e engine) newDecoder() (*decoder, error) {
	stream := C.block_inflate_new()
	if stream == nil {
		return nil, fmt.Errorf("make a %s decoder: the library has no memory", e.Name())
	}
	least := int64(math.MaxInt64)
	if e.options.Hardware {
		least = e.options.InflateMinSize
	}
	return &decoder{stream: stream, obstacle: OtherObstacle, least: least}, nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

type encoder struct {
	stream   *C.zng_stream // nil after Close
	obstacle Obstacle      // of the last call that returned no error
	grown    Obstacle      // of the last call whose output did not fit
	// dictionary that blocks refer to; nil: none.
	dictionary []byte
}

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(dst) > math.MaxUint32 || len(src) > math.MaxUint32 {
		return 0, errTooLarge
	}
	r := C.block_deflate(
		e.stream, pointer(dst), C.uint32_t(len(dst)), pointer(src), C.uint32_t(len(src)), pointer(e.dictionary),
		C.uint32_t(len(e.dictionary)),
	)
	e.grown = obstacleOf(r.witness)
	return result(r, &e.obstacle)
}

// Restart implements codec.StreamEncoder.
func (e *encoder) Restart() error {
	if e.stream == nil {
		return codec.ErrClosed
	}
	if C.part_restart(e.stream) != 0 {
		return errBroken
	}
	return nil
}

// EncodePart implements codec.StreamEncoder.
func (e *encoder) EncodePart(dst, src []byte, last bool) (int, error) {
	if e.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(dst) > math.MaxUint32 || len(src) > math.MaxUint32 {
		return 0, errTooLarge
	}
	r := C.part_deflate(e.stream, pointer(dst), C.uint32_t(len(dst)), pointer(src), C.uint32_t(len(src)), flag(last))
	e.grown = obstacleOf(r.witness)
	return result(r, &e.obstacle)
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	if e.stream != nil {
		C.block_deflate_free(e.stream)
		e.stream = nil
	}
	return nil
}

type decoder struct {
	stream   *C.zng_stream // nil after Close
	least    int64         // the compressed size from which on hardware is used
	obstacle Obstacle      // of the last call that returned no error
	// dictionary that blocks refer to; nil: none.
	dictionary []byte
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.stream == nil {
		return 0, codec.ErrClosed
	}
	if len(dst) > math.MaxUint32 || len(src) > math.MaxUint32 {
		return 0, errTooLarge
	}
	hardware := flag(int64(len(src)) >= d.least)
	r := C.block_inflate(
		d.stream, hardware, pointer(dst), C.uint32_t(len(dst)), pointer(src), C.uint32_t(len(src)), pointer(d.dictionary),
		C.uint32_t(len(d.dictionary)),
	)
	return result(r, &d.obstacle)
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	if d.stream != nil {
		C.block_inflate_free(d.stream)
		d.stream = nil
	}
	return nil
}

// hardwareEncoder is an encoder that bears witness, and that stores what the accelerator would make longer: it has no
// stored blocks (docs/decisions/134-accelerator-output-that-grows.md). Storing does not change the witness.
type hardwareEncoder struct{ encoder }

// Encode implements codec.Encoder.
func (e *hardwareEncoder) Encode(dst, src []byte) (int, error) {
	began := time.Now()
	defer func() { count(e.obstacle, servicetime.Deflate, len(src), began) }()
	n, err := e.encoder.Encode(unlessStored(dst, src, true), src)
	if !errors.Is(err, codec.ErrDoesNotFit) || len(src) == 0 || len(dst) < codec.StoredLen(len(src), true) {
		return n, err
	}
	e.obstacle = e.grown
	return codec.Store(dst, src, true), nil
}

// EncodePart implements codec.StreamEncoder.
func (e *hardwareEncoder) EncodePart(dst, src []byte, last bool) (int, error) {
	began := time.Now()
	defer func() { count(e.obstacle, servicetime.Deflate, len(src), began) }()
	n, err := e.encoder.EncodePart(unlessStored(dst, src, last), src, last)
	if !errors.Is(err, codec.ErrDoesNotFit) || len(src) == 0 || len(dst) < codec.StoredLen(len(src), last) {
		return n, err
	}
	if !last && C.part_stored(e.stream, pointer(src), C.uint32_t(len(src))) != 0 {
		return 0, errBroken
	}
	e.obstacle = e.grown
	return codec.Store(dst, src, last), nil
}

// unlessStored returns the space in dst for what is shorter than stored blocks, of which there are none without bytes.
func unlessStored(dst, src []byte, last bool) []byte {
	if stored := codec.StoredLen(len(src), last); len(src) > 0 && stored < len(dst) {
		return dst[:stored]
	}
	return dst
}

// UsedHardware implements codec.Witness.
func (e *hardwareEncoder) UsedHardware() bool { return e.obstacle == NoObstacle }

// Obstacle implements Explained.
func (e *hardwareEncoder) Obstacle() Obstacle { return e.obstacle }

// hardwareDecoder is a decoder that bears witness.
type hardwareDecoder struct{ decoder }

// Decode implements codec.Decoder.
func (d *hardwareDecoder) Decode(dst, src []byte) (int, error) {
	began := time.Now()
	n, err := d.decoder.Decode(dst, src)
	if int64(len(src)) >= d.least {
		count(d.obstacle, servicetime.Inflate, max(n, len(src)), began)
	}
	return n, err
}

// UsedHardware implements codec.Witness.
func (d *hardwareDecoder) UsedHardware() bool { return d.obstacle == NoObstacle }

// Obstacle implements Explained.
func (d *hardwareDecoder) Obstacle() Obstacle { return d.obstacle }

var (
	errTooLarge = errors.New("zlib-ng takes buffers of less than 4 GiB")
	errBroken   = errors.New("zlib-ng refused a call that it should accept")
)

func obstacleOf(w C.enum_dfltcc_witness) Obstacle {
	switch w {
	case C.dfltcc_did_all:
		return NoObstacle
	case C.dfltcc_not_built:
		return NotBuilt
	case C.dfltcc_no_instruction:
		return NoInstruction
	case C.dfltcc_level:
		return OtherLevel
	case C.dfltcc_window:
		return OtherWindow
	default:
		return OtherObstacle
	}
}

func pointer(b []byte) *C.uint8_t {
	return (*C.uint8_t)(unsafe.SliceData(b))
}

// result turns what a C function returned into what a method returns and, unless
// that is an error, sets what kept the library from the accelerator.
func result(r C.struct_block_result, obstacle *Obstacle) (int, error) {
	switch r.n {
	case C.block_does_not_fit:
		return 0, codec.ErrDoesNotFit
	case C.block_corrupt:
		return 0, codec.ErrCorrupt
	case C.block_truncated:
		return 0, codec.ErrTruncated
	case C.block_trailing:
		return 0, codec.ErrTrailing
	case C.block_too_long:
		return 0, codec.ErrTooLong
	}
	if r.n < 0 {
		return 0, errBroken
	}
	*obstacle = obstacleOf(r.witness)
	return int(r.n), nil
}
