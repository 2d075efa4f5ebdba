// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cover selects what messages have in common, which is what a dictionary has for the messages after them. The
// same samples make the same selection.
package cover

import (
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

const (
	// MaxSample is how much of a sample is looked at, in bytes.
	MaxSample = 64 << 10
	// MaxSamples is how much of all of them is. Selecting holds that once more, and 10 MiB beside it.
	MaxSamples = 4 << 20
	// MinSamples is the least number of samples: what fewer have in common is chance.
	MinSamples = 16
	// FirstNumber is the least number of a dictionary. RFC 8878 reserves those below 1<<15, and those below 1<<16 have a
	// shorter form in its frames.
	FirstNumber = 1 << 16
	// LastNumber is the greatest. RFC 8878 reserves those beyond.
	LastNumber = 1<<31 - 1

	// least is the shortest in bytes that samples have in common and that is worth a dictionary.
	least = 64
)

var (
	// ErrTooFew says that there are fewer than MinSamples samples.
	ErrTooFew = errors.New("too few samples for a dictionary")
	// ErrTooLittle says that the samples share too little for a dictionary.
	ErrTooLittle = errors.New("the samples share too little for a dictionary")
)

// Select returns at most size bytes that several of the samples have, what most have last, and the samples that it looked
// at: it ends where they reach MaxSamples bytes and passes over those of less than 8 bytes. The error matches ErrTooFew
// or ErrTooLittle.
func Select(samples [][]byte, size int) (content []byte, seen [][]byte, err error) {
	seen = bounded(samples)
	if len(seen) < MinSamples {
		return nil, seen, fmt.Errorf("%w: %d of %d", ErrTooFew, len(seen), MinSamples)
	}
	if content = cover(seen, size); len(content) < least {
		return nil, seen, ErrTooLittle
	}
	return content, seen, nil
}

// bounded are the samples that are looked at. What is shorter than a word has nothing to share.
func bounded(samples [][]byte) [][]byte {
	var seen [][]byte
	for left := MaxSamples; len(samples) > 0; samples = samples[1:] {
		s := samples[0][:min(len(samples[0]), MaxSample)]
		if len(s) < word {
			continue
		}
		if len(s) > left {
			break
		}
		seen, left = append(seen, s), left-len(s)
	}
	return seen
}

// Number returns a number for a selection, from its bytes.
func Number(content []byte) uint32 {
	return FirstNumber + uint32(xxh3.Hash(content)%(LastNumber-FirstNumber+1))
}
