// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	smallestBuffer = 12 // 4 KiB, what a connection holds that waits
	readBuffer     = 17 // 128 KiB, what one reads into that does not
	largestPooled  = 22 // 4 MiB; longer ones are left to the collector
)

// pools hold buffers by powers of two.
var pools [largestPooled - smallestBuffer + 1]sync.Pool

// buffer is used by all who hold a reference to it.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

// newBuffer returns a buffer of at least n bytes with one reference.
func newBuffer(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBuffer)
	if class <= largestPooled {
		if b, ok := pools[class-smallestBuffer].Get().(*buffer); ok {
			b.refs.Store(1)
			return b
		}
	}
	b := &buffer{b: make([]byte, 1<<class)}
	b.refs.Store(1)
	return b
}

// hold adds a reference.
func (b *buffer) hold() *buffer {
	b.refs.Add(1)
	return b
}

// release drops a reference.
func (b *buffer) release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	if class := bits.Len(uint(len(b.b) - 1)); class <= largestPooled {
		pools[class-smallestBuffer].Put(b)
	}
}
