// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package goflate is the deflate engine in pure Go: it needs no C compiler and
// runs everywhere Go does.
package goflate

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/lighterage/lighterage/agent/codec"
)

// Name is the engine's name.
const Name = "go"

// New returns the engine.
func New() codec.Engine {
	return engine{}
}

type engine struct{}

// Name implements codec.Engine.
func (engine) Name() string { return Name }

// Codec implements codec.Engine.
func (engine) Codec() codec.ID { return codec.Deflate }

// Class implements codec.Engine.
func (engine) Class() codec.Class { return codec.Software }

// compressLevel maps a level to the library's. docs/decisions/002-deflate-levels.md
// has the measurements.
func compressLevel(level codec.Level) (int, bool) {
	switch level {
	case codec.Fast:
		return 2, true
	case codec.Balanced:
		return 5, true
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
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	w, err := flate.NewWriter(io.Discard, n)
	if err != nil {
		return nil, fmt.Errorf("make a %s encoder of level %d: %w", Name, n, err)
	}
	return &encoder{w: w}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) {
	return newDecoder(nil), nil
}

func newDecoder(dictionary []byte) *decoder {
	d := &decoder{dictionary: dictionary}
	d.r = flate.NewReaderDict(&d.src, dictionary)
	return d
}

type encoder struct {
	w   *flate.Writer
	out bounded
}

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.w == nil {
		return 0, codec.ErrClosed
	}
	e.out = bounded{dst: dst}
	e.w.Reset(&e.out)
	_, err := e.w.Write(src)
	if err == nil {
		err = e.w.Close()
	}
	n := e.out.n
	e.out.dst = nil
	if err != nil {
		// The writer below fails in one way only.
		return 0, codec.ErrDoesNotFit
	}
	return n, nil
}

// Restart implements codec.StreamEncoder.
func (e *encoder) Restart() error {
	if e.w == nil {
		return codec.ErrClosed
	}
	e.w.Reset(&e.out)
	return nil
}

// EncodePart implements codec.StreamEncoder.
func (e *encoder) EncodePart(dst, src []byte, last bool) (int, error) {
	if e.w == nil {
		return 0, codec.ErrClosed
	}
	e.out = bounded{dst: dst}
	_, err := e.w.Write(src)
	switch {
	case err != nil:
	case last:
		err = e.w.Close()
	default:
		err = e.w.Flush()
	}
	n := e.out.n
	e.out.dst = nil
	if err != nil {
		// The writer below fails in one way only.
		return 0, codec.ErrDoesNotFit
	}
	return n, nil
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	e.w = nil
	return nil
}

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

type decoder struct {
	r   io.ReadCloser // nil after Close
	src bytes.Reader
	// dictionary that blocks refer to; nil: none.
	dictionary []byte
	// probe takes the byte that a stream longer than its bound goes on with. It is
	// a field because a local one would be allocated for each block.
	probe [1]byte
}

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.r == nil {
		return 0, codec.ErrClosed
	}
	d.src.Reset(src)
	defer d.src.Reset(nil)
	if err := d.r.(flate.Resetter).Reset(&d.src, d.dictionary); err != nil {
		return 0, fmt.Errorf("reset the decoder: %w", err)
	}

	n := 0
	for n < len(dst) {
		m, err := d.r.Read(dst[n:])
		n += m
		if err != nil {
			return d.end(n, err)
		}
	}
	// The bound is reached: the stream must end here. Reading a byte more tells an
	// end from more output.
	m, err := d.r.Read(d.probe[:])
	if m > 0 {
		return 0, codec.ErrTooLong
	}
	return d.end(n, err)
}

// end interprets the error that ended the reading of a stream after n bytes.
func (d *decoder) end(n int, err error) (int, error) {
	switch {
	case errors.Is(err, io.EOF) && d.src.Len() > 0:
		return 0, codec.ErrTrailing
	case errors.Is(err, io.EOF):
		return n, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, codec.ErrTruncated
	default:
		return 0, codec.ErrCorrupt
	}
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	d.r = nil
	return nil
}
