// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	smallestBuffer = 4 << 10
	largestBuffer  = 512 << 10
	// Between a power of two and the next there are so many sizes of buffers.
	bufferSteps = 4

	// maxBuffered bounds the memory of bodies that are held whole or in parts.
	maxBuffered = 48 << 20
)

// buffers are slices of some lengths, used again, of which only so many bytes are
// handed out at once. The zero value is ready; it is safe for concurrent use.
type buffers struct {
	pools [7*bufferSteps + 1]sync.Pool
	used  atomic.Int64
}

// buffer is a slice that was handed out.
type buffer struct {
	b     []byte
	class int
}

// bufferClass returns the number of the shortest buffers that hold n bytes, and their
// length.
func bufferClass(n int) (class, length int) {
	if n <= smallestBuffer {
		return 0, smallestBuffer
	}
	power := bits.Len(uint(n-1)) - 1 // 2^power < n <= 2^(power+1)
	step := 1 << power / bufferSteps
	steps := (n - 1<<power + step - 1) / step
	return (power-bits.Len(smallestBuffer)+1)*bufferSteps + steps, 1<<power + steps*step
}

// get returns a buffer of at least n bytes, or nil when too much is in use or n is too
// large.
func (p *buffers) get(n int) *buffer {
	if n > largestBuffer {
		return nil
	}
	class, length := bufferClass(n)
	if p.used.Add(int64(length)) > maxBuffered {
		p.used.Add(-int64(length))
		return nil
	}
	if found, ok := p.pools[class].Get().(*buffer); ok {
		return found
	}
	return &buffer{b: make([]byte, length), class: class}
}

// put gives back a buffer, or nothing if it is nil.
func (p *buffers) put(b *buffer) {
	if b == nil {
		return
	}
	p.used.Add(-int64(len(b.b)))
	p.pools[b.class].Put(b)
}
