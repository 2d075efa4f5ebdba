// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dictionaries is what there is of dictionaries for each codec that has them.
package dictionaries

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

// Format is that of the dictionaries of a codec.
type Format struct {
	// Train makes a dictionary of at most so many bytes of messages, and returns of how many.
	Train func(messages [][]byte, size int) (content []byte, used int, err error)
	// Number returns the number of a dictionary, or an error that matches codec.ErrDictionary.
	Number func(content []byte) (uint32, error)
	// Check is Number for a dictionary that somebody else sent: its number is that which Train gives to what it holds.
	Check func(content []byte) (uint32, error)
	// TrainingSize is that of dictionaries that are trained, in bytes.
	TrainingSize int
}

// deflateTrainingSize is that of deflate. docs/decisions/180-dictionaries-of-deflate.md has what others do.
const deflateTrainingSize = 8 << 10

// Of returns the format of a codec. The error matches codec.ErrDictionary if it has no dictionaries.
func Of(id codec.ID) (Format, error) {
	switch id {
	case codec.Zstd:
		return Format{
			Train: zstddict.Train, Number: zstddict.Number, Check: zstddict.Check,
			TrainingSize: zstddict.MaxSize,
		}, nil
	case codec.Deflate:
		return Format{
			Train: deflatedict.Train, Number: deflatedict.Number, Check: deflatedict.Number,
			TrainingSize: deflateTrainingSize,
		}, nil
	default:
		return Format{}, fmt.Errorf("%w: %v has none", codec.ErrDictionary, id)
	}
}
