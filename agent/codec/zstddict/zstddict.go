// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zstddict makes dictionaries for short messages that resemble each other: what several of them have in common,
// and how often which symbol follows, in the format of RFC 8878, section 5. The same samples make the same dictionary.
package zstddict

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/cover"
)

const (
	// MinSize is the least length of a dictionary in bytes.
	MinSize = 2 << 10
	// MaxSize is the most.
	MaxSize = 64 << 10

	// counted is how many samples the frequencies of symbols are taken of.
	counted = 2048
	// tables is the most that a dictionary has beside what samples have in common.
	tables = 1 << 10
)

var (
	// ErrNoTables says that the symbols of the samples make no tables for a dictionary.
	ErrNoTables = errors.New("the samples make no tables for a dictionary")
	// ErrInvalid says that bytes are no dictionary.
	ErrInvalid = fmt.Errorf("%w of zstd", codec.ErrDictionary)
)

// Train returns a dictionary of at most size bytes for messages like the samples, and how many of them it looked at, as
// cover.Select does. The error matches one of that, or ErrNoTables, unless the size is out of bounds. Whether a dictionary
// is worth its while only other messages show: noise makes one as well. It takes up to a second of CPU time, and an
// encoder in memory beside what the selection takes.
func Train(samples [][]byte, size int) (dictionary []byte, used int, err error) {
	if size < MinSize || size > MaxSize {
		return nil, 0, fmt.Errorf("train a dictionary of %d bytes: use %d to %d", size, MinSize, MaxSize)
	}
	content, seen, err := cover.Select(samples, size-tables)
	if err != nil {
		return nil, len(seen), err
	}
	dictionary, err = zstd.BuildDict(zstd.BuildDictOptions{
		ID: cover.Number(content), Contents: seen[:min(len(seen), counted)], History: content, Offsets: [3]int{1, 4, 8},
		Level: zstd.SpeedDefault,
		// Readers of elsewhere may have an older library.
		CompatV155: true,
	})
	if err != nil {
		return nil, len(seen), fmt.Errorf("%w: %w", ErrNoTables, err)
	}
	if len(dictionary) > size {
		return nil, len(seen), fmt.Errorf("%w: they take more than %d bytes", ErrNoTables, tables)
	}
	return dictionary, len(seen), nil
}

// Number returns the number of a dictionary, which frames name, or an error that matches ErrInvalid.
func Number(dictionary []byte) (uint32, error) {
	if len(dictionary) > MaxSize {
		return 0, fmt.Errorf("%w: %d bytes; the limit is %d", ErrInvalid, len(dictionary), MaxSize)
	}
	d, err := zstd.InspectDictionary(dictionary)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if n := d.ID(); n < cover.FirstNumber || n > cover.LastNumber {
		return 0, fmt.Errorf("%w: number %d; use %d to %d", ErrInvalid, n, cover.FirstNumber, cover.LastNumber)
	}
	return d.ID(), nil
}
