// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
)

// Most of a block volume, and of an image of one, may be zeros.

var zeroPlain [frame.DefaultBlock]byte

// isZeros reports whether a block has no byte but 0.
func isZeros(plain []byte) bool {
	return len(plain) <= len(zeroPlain) && bytes.Equal(plain, zeroPlain[:len(plain)])
}

// zeroBlock is what rests of a whole block of zeros. It is compressed once.
type zeroBlock struct {
	known atomic.Pointer[zerosAtRest]
}

type zerosAtRest struct {
	rest    []byte
	block   cargo.Block
	outcome meter.Outcome
}

// takes reports whether a plain block is one that rests as all others like it.
func (z *zeroBlock) takes(plain []byte) bool {
	return len(plain) == frame.DefaultBlock && isZeros(plain)
}

// keep notes what a block of zeros became. Of others there is no CPU time, and nothing was estimated.
func (z *zeroBlock) keep(rest []byte, b cargo.Block, outcome meter.Outcome) {
	outcome.CPU, outcome.Estimate = 0, meter.Estimate{}
	z.known.Store(&zerosAtRest{slices.Clone(rest), b, outcome})
}

// maxKnownZeros bounds the blocks that are remembered: each engine and level makes others.
const maxKnownZeros = 64

// zerosRead are blocks of indexes that were read and found to be nothing but zeros. What rests of others with the same
// lengths and checksums is the same, and need not be read.
type zerosRead struct {
	mu    sync.Mutex
	known map[cargo.Block]struct{}
}

func (z *zerosRead) has(b cargo.Block) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	_, known := z.known[b]
	return known
}

func (z *zerosRead) add(b cargo.Block) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.known == nil {
		z.known = make(map[cargo.Block]struct{})
	}
	if len(z.known) < maxKnownZeros {
		z.known[b] = struct{}{}
	}
}
