// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && zlibng

package zlibng

import (
	"bytes"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
)

// NewDictionaryEncoder implements codec.DictionaryEngine.
func (e engine) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make a %s encoder: %w", e.Name(), err)
	}
	made, err := e.newEncoder(level)
	if err != nil {
		return nil, err
	}
	made.dictionary = bytes.Clone(dictionary)
	if e.options.Hardware {
		return &hardwareDictionaryEncoder{blocks: hardwareEncoder{*made}}, nil
	}
	return &dictionaryEncoder{blocks: made}, nil
}

// NewDictionaryDecoder implements codec.DictionaryEngine.
func (e engine) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", e.Name(), err)
	}
	made, err := e.newDecoder()
	if err != nil {
		return nil, err
	}
	made.dictionary = bytes.Clone(dictionary)
	if e.options.Hardware {
		return &hardwareDecoder{*made}, nil
	}
	return made, nil
}

// dictionaryEncoder is not a codec.StreamEncoder, as encoder is.
type dictionaryEncoder struct{ blocks *encoder }

// Encode implements codec.Encoder.
func (e *dictionaryEncoder) Encode(dst, src []byte) (int, error) { return e.blocks.Encode(dst, src) }

// Close implements codec.Encoder.
func (e *dictionaryEncoder) Close() error { return e.blocks.Close() }

// hardwareDictionaryEncoder is one that bears witness.
type hardwareDictionaryEncoder struct{ blocks hardwareEncoder }

// Encode implements codec.Encoder.
func (e *hardwareDictionaryEncoder) Encode(dst, src []byte) (int, error) {
	return e.blocks.Encode(dst, src)
}

// UsedHardware implements codec.Witness.
func (e *hardwareDictionaryEncoder) UsedHardware() bool { return e.blocks.UsedHardware() }

// Obstacle implements Explained.
func (e *hardwareDictionaryEncoder) Obstacle() Obstacle { return e.blocks.Obstacle() }

// Close implements codec.Encoder.
func (e *hardwareDictionaryEncoder) Close() error { return e.blocks.Close() }
