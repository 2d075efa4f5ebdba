// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity is the engine of the codec none: it copies.
package identity

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

// Name is the engine's name.
const Name = "none"

// New returns the engine.
func New() codec.Engine {
	return engine{}
}

type engine struct{}

// Name implements codec.Engine.
func (engine) Name() string { return Name }

// Codec implements codec.Engine.
func (engine) Codec() codec.ID { return codec.None }

// Class implements codec.Engine.
func (engine) Class() codec.Class { return codec.NoClass }

// HasLevel implements codec.Engine.
func (engine) HasLevel(level codec.Level) bool {
	return level == codec.Fast || level == codec.Balanced || level == codec.High
}

// NewEncoder implements codec.Engine.
func (e engine) NewEncoder(level codec.Level) (codec.Encoder, error) {
	if !e.HasLevel(level) {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	return &encoder{}, nil
}

// NewDecoder implements codec.Engine.
func (engine) NewDecoder() (codec.Decoder, error) {
	return &decoder{}, nil
}

type encoder struct{ closed bool }

// Encode implements codec.Encoder.
func (e *encoder) Encode(dst, src []byte) (int, error) {
	if e.closed {
		return 0, codec.ErrClosed
	}
	if len(src) > len(dst) {
		return 0, codec.ErrDoesNotFit
	}
	return copy(dst, src), nil
}

// Close implements codec.Encoder.
func (e *encoder) Close() error {
	e.closed = true
	return nil
}

type decoder struct{ closed bool }

// Decode implements codec.Decoder.
func (d *decoder) Decode(dst, src []byte) (int, error) {
	if d.closed {
		return 0, codec.ErrClosed
	}
	if len(src) > len(dst) {
		return 0, codec.ErrTooLong
	}
	return copy(dst, src), nil
}

// Close implements codec.Decoder.
func (d *decoder) Close() error {
	d.closed = true
	return nil
}
