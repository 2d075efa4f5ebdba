// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && libzstd

package libzstd

// #include "block.h"
import "C"

import (
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

// NewDictionaryEncoder implements codec.DictionaryEngine.
func (engine) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	if _, err := zstddict.Number(dictionary); err != nil {
		return nil, fmt.Errorf("make a %s encoder: %w", Name, err)
	}
	e, err := newEncoder(level)
	if err != nil {
		return nil, err
	}
	e.dictionary = true
	n := C.zstd_compress_dictionary(e.context, pointer(dictionary), C.size_t(len(dictionary)))
	if err := loaded(n); err != nil {
		return nil, errors.Join(fmt.Errorf("make a %s encoder: %w", Name, err), e.Close())
	}
	return codec.OnlyBlocks(e), nil
}

// NewDictionaryDecoder implements codec.DictionaryEngine.
func (engine) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	number, err := zstddict.Number(dictionary)
	if err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, err)
	}
	d, err := newDecoder()
	if err != nil {
		return nil, err
	}
	d.dictionary = number
	n := C.zstd_decompress_dictionary(d.context, pointer(dictionary), C.size_t(len(dictionary)))
	if err := loaded(n); err != nil {
		return nil, errors.Join(fmt.Errorf("make a %s decoder: %w", Name, err), d.Close())
	}
	return d, nil
}

// loaded is the error of a call that takes a dictionary.
func loaded(n C.int) error {
	switch n {
	case 0:
		return nil
	case C.block_no_memory:
		return errNoMemory
	case C.block_corrupt:
		return zstddict.ErrInvalid
	default:
		return errBroken
	}
}
