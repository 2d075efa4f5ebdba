// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && isal

package isal

// #include "block.h"
import "C"

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
)

// NewDictionaryEncoder implements codec.DictionaryEngine.
func (e engine) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make an %s encoder: %w", Name, err)
	}
	made, err := e.newEncoder(level)
	if err != nil {
		return nil, err
	}
	if C.isal_block_deflate_dictionary(made.stream, pointer(dictionary), C.uint32_t(len(dictionary))) != 0 {
		return nil, errors.Join(fmt.Errorf("make an %s encoder: the library has no memory", Name), made.Close())
	}
	return codec.OnlyBlocks(made), nil
}

// NewDictionaryDecoder implements codec.DictionaryEngine.
func (engine) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	if _, err := deflatedict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make an %s decoder: %w", Name, err)
	}
	made, err := newDecoder()
	if err != nil {
		return nil, err
	}
	made.dictionary = bytes.Clone(dictionary)
	return made, nil
}
