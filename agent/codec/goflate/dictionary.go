// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package goflate

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
)

// NewDictionaryEncoder implements codec.DictionaryEngine.
func (engine) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make a %s encoder: %w", Name, err)
	}
	n, ok := compressLevel(level)
	if !ok {
		return nil, fmt.Errorf("make a %s encoder: unknown %v", Name, level)
	}
	w, err := flate.NewWriterDict(io.Discard, n, dictionary)
	if err != nil {
		return nil, fmt.Errorf("make a %s encoder of level %d: %w", Name, n, err)
	}
	return codec.OnlyBlocks(&encoder{w: w}), nil
}

// NewDictionaryDecoder implements codec.DictionaryEngine.
func (engine) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, err)
	}
	return newDecoder(bytes.Clone(dictionary)), nil
}
