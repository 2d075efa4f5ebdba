// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gozstd is the engine of codec.Zstd in pure Go: it needs no C compiler
// and runs everywhere Go does.
package gozstd

import (
	"errors"
	"fmt"
	"io"

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
	e, err := newEncoder(level)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func newEncoder(level codec.Level, more ...zstd.EOption) (*encoder, error) {
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	w, err := zstd.NewWriter(nil, append([]zstd.EOption{
		zstd.WithEncoderLevel(n),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdframe.MaxWindow),
		zstd.WithLowerEncoderMem(true), // half of it, and no slower
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), // else short frames lack their content size
		zstd.WithZeroFrames(true),    // an empty block is a frame as well
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make a %s encoder of level %v: %w", Name, n, err)
	}
	return &encoder{w: w, level: n}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) { return newDecoder(0) }

func newDecoder(dictionary uint32, more ...zstd.DOption) (codec.Decoder, error) {
	r, err := zstd.NewReader(nil, append([]zstd.DOption{
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(zstdframe.MaxWindow),
		zstd.WithDecodeAllCapLimit(true),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, err)
	}
	return &decoder{r: r, dictionary: dictionary}, nil
}

type encoder struct {
	w     *zstd.Encoder // nil after Close
	level zstd.EncoderLevel
	// stream makes frames in parts, into part. It is nil until Restart: its window
	// takes memory that blocks do not need.
	stream *zstd.Encoder
	part   bounded
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

// Restart implements codec.StreamEncoder.
func (e *encoder) Restart() error {
	if e.w == nil {
		return codec.ErrClosed
	}
	e.part = bounded{}
	if e.stream != nil {
		e.stream.Reset(&e.part)
		return nil
	}
	w, err := zstd.NewWriter(&e.part,
		zstd.WithEncoderLevel(e.level),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(streamWindow),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false),
		zstd.WithZeroFrames(true), // an empty stream is a frame as well
	)
	if err != nil {
		return fmt.Errorf("make a %s stream of level %v: %w", Name, e.level, err)
	}
	e.stream = w
	return nil
}

// EncodePart implements codec.StreamEncoder.
func (e *encoder) EncodePart(dst, src []byte, last bool) (int, error) {
	if e.w == nil {
		return 0, codec.ErrClosed
	}
	if e.stream == nil {
		return 0, errNotStarted
	}
	e.part = bounded{dst: dst}
	_, err := e.stream.Write(src)
	switch {
	case err != nil:
	case last:
		err = e.stream.Close()
	default:
		err = e.stream.Flush()
	}
	n := e.part.n
	e.part.dst = nil
	if err != nil {
		// The writer below fails in one way only.
		return 0, codec.ErrDoesNotFit
	}
	return n, nil
}

// streamWindow is how far back, in bytes, the parts of a stream refer: what those
// who receive many streams at once can keep of each.
const streamWindow = 256 << 10

var errNotStarted = errors.New("a stream of " + Name + " was continued without having been started")

// bounded is a writer into a slice that never grows.
type bounded struct {
	dst []byte
	n   int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > len(b.dst)-b.n {
		return 0, codec.ErrDoesNotFit
	}
	b.n += copy(b.dst[b.n:], p)
	return len(p), nil
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	if e.w == nil {
		return nil
	}
	err := e.w.Close()
	if e.stream != nil {
		// What it may still hold of a stream that nobody finished goes nowhere.
		e.stream.Reset(io.Discard)
		err = errors.Join(err, e.stream.Close())
	}
	e.w, e.stream, e.frame = nil, nil, nil
	if err != nil {
		return fmt.Errorf("close a %s encoder: %w", Name, err)
	}
	return nil
}

type decoder struct {
	r *zstd.Decoder // nil after Close
	// dictionary is the number of the one that frames need; 0: none.
	dictionary uint32
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.r == nil {
		return 0, codec.ErrClosed
	}
	size, err := zstdframe.ContentSizeWithDictionary(src, len(dst), d.dictionary)
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
