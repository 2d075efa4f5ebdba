// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial takes a sample of a directory, has every engine compress it at every level, and predicts what moving
// such data would take with each of them, by the model of mode Auto.
package trial

const (
	// MaxLinks is how many networks a trial predicts for.
	MaxLinks = 6
	// MinSample is the least size of a sample in bytes.
	MinSample = 1 << 20
	// MaxSample is the largest, which is held in memory.
	MaxSample = 128 << 20
)
