// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zstddict makes dictionaries for short messages that resemble each other: what several of them have in common,
// and how often which symbol follows, in the format of RFC 8878, section 5. The same samples make the same dictionary.
package zstddict

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

const (
	// MinSize is the least length of a dictionary in bytes.
	MinSize = 2 << 10
	// MaxSize is the most.
	MaxSize = 64 << 10
	// MaxSample is how much of a sample is looked at, in bytes.
	MaxSample = 64 << 10
	// MaxSamples is how much of all of them is. Training holds that once more, and 10 MiB and an encoder beside it.
	MaxSamples = 4 << 20
	// MinSamples is the least number of samples: what fewer have in common is chance.
	MinSamples = 16

	// counted is how many samples the frequencies of symbols are taken of.
	counted = 2048
	// tables is the most that a dictionary has beside what samples have in common.
	tables = 1 << 10
	// least is the shortest that samples have in common and that is worth a dictionary.
	least = 64
	// RFC 8878 reserves numbers below 1<<15 and from 1<<31. Numbers below 1<<16 have a shorter form in frames.
	firstNumber, afterLastNumber = 1 << 16, 1 << 31
)

var (
	// ErrTooFew says that there are fewer than MinSamples samples.
	ErrTooFew = errors.New("too few samples for a dictionary")
	// ErrTooLittle says that the samples share too little for a dictionary.
	ErrTooLittle = errors.New("the samples share too little for a dictionary")
	// ErrNoTables says that the symbols of the samples make no tables for a dictionary.
	ErrNoTables = errors.New("the samples make no tables for a dictionary")
	// ErrInvalid says that bytes are no dictionary.
	ErrInvalid = errors.New("invalid zstd dictionary")
)

// Train returns a dictionary of at most size bytes for messages like the samples, and how many of them it looked at: it
// ends where they reach MaxSamples bytes and passes over those of less than 8 bytes. The error matches ErrTooFew,
// ErrTooLittle or ErrNoTables unless the size is out of bounds. Whether a dictionary is worth its while only other
// messages show: noise makes one as well. It takes up to a second of CPU time.
func Train(samples [][]byte, size int) (dictionary []byte, used int, err error) {
	if size < MinSize || size > MaxSize {
		return nil, 0, fmt.Errorf("train a dictionary of %d bytes: use %d to %d", size, MinSize, MaxSize)
	}
	seen := bounded(samples)
	if len(seen) < MinSamples {
		return nil, len(seen), fmt.Errorf("%w: %d of %d", ErrTooFew, len(seen), MinSamples)
	}
	content := cover(seen, size-tables)
	if len(content) < least {
		return nil, len(seen), ErrTooLittle
	}
	dictionary, err = zstd.BuildDict(zstd.BuildDictOptions{
		ID: number(content), Contents: seen[:min(len(seen), counted)], History: content, Offsets: [3]int{1, 4, 8},
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

func number(content []byte) uint32 {
	return firstNumber + uint32(xxh3.Hash(content)%(afterLastNumber-firstNumber))
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
	if n := d.ID(); n < firstNumber || n >= afterLastNumber {
		return 0, fmt.Errorf("%w: number %d; use %d to %d", ErrInvalid, n, firstNumber, afterLastNumber-1)
	}
	return d.ID(), nil
}
