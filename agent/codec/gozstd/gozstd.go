// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gozstd is the engine of codec.Zstd in pure Go: it needs no C compiler
// and runs everywhere Go does.
package gozstd

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
)

// Name is the engine's name.
const Name = "go-zstd"

// New returns the engine.
func New() codec.Engine {
	return engine{}
}

type engine struct{}

// Name implements codec.Engine.
func (engine) Name() string { return Name }

// Codec implements codec.Engine.
func (engine) Codec() codec.ID { return codec.Zstd }

// Class implements codec.Engine.
func (engine) Class() codec.Class { return codec.Software }

// compressLevel maps a level to the library's. docs/decisions/010-zstd.md has the
// measurements.
func compressLevel(level codec.Level) (zstd.EncoderLevel, bool) {
	switch level {
	case codec.Fast:
		return zstd.SpeedFastest, true
	case codec.Balanced:
		return zstd.SpeedDefault, true
	case codec.High:
		return zstd.SpeedBetterCompression, true
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
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	w, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(n),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdframe.MaxWindow),
		zstd.WithLowerEncoderMem(true), // half of it, and no slower
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), // else short frames lack their content size
		zstd.WithZeroFrames(true),    // an empty block is a frame as well
	)
	if err != nil {
		return nil, fmt.Errorf("make a %s encoder of level %v: %w", Name, n, err)
	}
	return &encoder{w: w}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) {
	r, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(zstdframe.MaxWindow),
		zstd.WithDecodeAllCapLimit(true),
	)
	if err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, err)
	}
	return &decoder{r: r}, nil
}

type encoder struct {
	w *zstd.Encoder // nil after Close
	// frame is where a frame is made that might not fit: the library has no bound
	// for what it writes, and allocates what it lacks.
	frame []byte
}

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.w == nil {
		return 0, codec.ErrClosed
	}
	longest := e.w.MaxEncodedSize(len(src))
	if len(dst) >= longest {
		return len(e.w.EncodeAll(src, dst[:0])), nil
	}
	if cap(e.frame) < longest {
		e.frame = make([]byte, 0, longest)
	}
	frame := e.w.EncodeAll(src, e.frame[:0])
	if len(frame) > len(dst) {
		return 0, codec.ErrDoesNotFit
	}
	return copy(dst, frame), nil
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	if e.w == nil {
		return nil
	}
	err := e.w.Close()
	e.w, e.frame = nil, nil
	if err != nil {
		return fmt.Errorf("close a %s encoder: %w", Name, err)
	}
	return nil
}

type decoder struct {
	r *zstd.Decoder // nil after Close
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.r == nil {
		return 0, codec.ErrClosed
	}
	size, err := zstdframe.ContentSize(src, len(dst))
	if err != nil {
		return 0, err
	}
	// The capacity is the library's bound.
	plain, err := d.r.DecodeAll(src, dst[:0:size])
	switch {
	case err == nil:
		return len(plain), nil
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return 0, codec.ErrTooLong
	default:
		return 0, codec.ErrCorrupt
	}
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	if d.r != nil {
		d.r.Close()
		d.r = nil
	}
	return nil
}
