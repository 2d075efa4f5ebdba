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
		witness := &hardwareEncoder{*made}
		return hardwareBlocks{witness, witness, witness}, nil
	}
	return codec.OnlyBlocks(made), nil
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

// hardwareBlocks is codec.OnlyBlocks of an encoder that bears witness.
type hardwareBlocks struct {
	codec.Encoder
	codec.Witness
	Explained
}
