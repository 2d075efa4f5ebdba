// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deflatedict makes preset dictionaries of DEFLATE for short messages that resemble each other: what several of
// them have in common, and nothing else. A stream that refers to one does not say so; who keeps streams keeps the number
// of the dictionary with them. The same samples make the same dictionary.
package deflatedict

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/cover"
)

const (
	// MinSize is the least length of a dictionary in bytes.
	MinSize = 64
	// MaxSize is the most: the window of DEFLATE.
	MaxSize = 32 << 10
)

// ErrInvalid says that bytes are no dictionary.
var ErrInvalid = fmt.Errorf("%w of deflate", codec.ErrDictionary)

// Train returns a dictionary of at most size bytes for messages like the samples, and how many of them it looked at, as
// cover.Select does, whose errors are those of this, unless the size is out of bounds. Whether a dictionary is worth its
// while only other messages show: noise makes one as well. It takes up to a second of CPU time.
func Train(samples [][]byte, size int) (dictionary []byte, used int, err error) {
	if size < MinSize || size > MaxSize {
		return nil, 0, fmt.Errorf("train a dictionary of %d bytes: use %d to %d", size, MinSize, MaxSize)
	}
	content, seen, err := cover.Select(samples, size)
	return content, len(seen), err
}

// Number returns the number of a dictionary, which is a hash of it, or an error that matches ErrInvalid.
func Number(dictionary []byte) (uint32, error) {
	if n := len(dictionary); n < MinSize || n > MaxSize {
		return 0, fmt.Errorf("%w: %d bytes; use %d to %d", ErrInvalid, n, MinSize, MaxSize)
	}
	return cover.Number(dictionary), nil
}
