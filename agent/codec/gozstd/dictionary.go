// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gozstd

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

// NewDictionaryEncoder implements codec.DictionaryEngine.
func (engine) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	number, err := zstddict.Number(dictionary)
	if err != nil {
		return nil, fmt.Errorf("make a %s encoder: %w", Name, err)
	}
	e, err := newEncoder(level, zstd.WithEncoderDict(dictionary))
	if err != nil {
		return nil, err
	}
	return &dictionaryEncoder{blocks: e, empty: emptyFrame(number)}, nil
}

// NewDictionaryDecoder implements codec.DictionaryEngine.
func (engine) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	number, err := zstddict.Number(dictionary)
	if err != nil {
		return nil, fmt.Errorf("make a %s decoder: %w", Name, err)
	}
	return newDecoder(number, zstd.WithDecoderDicts(dictionary))
}

// dictionaryEncoder is not a codec.StreamEncoder, as encoder is.
type dictionaryEncoder struct {
	blocks *encoder
	empty  []byte
}

// Encode implements codec.Encoder.
func (e *dictionaryEncoder) Encode(dst, src []byte) (int, error) {
	if len(src) > 0 || e.blocks.w == nil {
		return e.blocks.Encode(dst, src)
	}
	if len(dst) < len(e.empty) {
		return 0, codec.ErrDoesNotFit
	}
	return copy(dst, e.empty), nil
}

// Close implements codec.Encoder.
func (e *dictionaryEncoder) Close() error { return e.blocks.Close() }

// emptyFrame is the frame of an empty block, in which the library names no dictionary. The number has 4 bytes, as all
// of zstddict have.
func emptyFrame(number uint32) []byte {
	const singleSegmentWithNumber = 0x23
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, singleSegmentWithNumber}
	b = binary.LittleEndian.AppendUint32(b, number)
	return append(b, 0, 1, 0, 0) // of 0 bytes; the last block, which has none
}
