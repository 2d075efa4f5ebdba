// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	smallestBuffer = 12 // 4 KiB
	largestBuffer  = 19 // 512 KiB

	// maxBuffered bounds the memory of bodies that are held whole or in parts.
	maxBuffered = 48 << 20
)

// buffers are slices by powers of two, used again, of which only so many bytes are
// handed out at once. The zero value is ready; it is safe for concurrent use.
type buffers struct {
	pools [largestBuffer - smallestBuffer + 1]sync.Pool
	used  atomic.Int64
}

// buffer is a slice that was handed out.
type buffer struct {
	b     []byte
	class int
}

// get returns a buffer of at least n bytes, or nil when too much is in use or n is too
// large.
func (p *buffers) get(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBuffer)
	if class > largestBuffer {
		return nil
	}
	if p.used.Add(1<<class) > maxBuffered {
		p.used.Add(-1 << class)
		return nil
	}
	if found, ok := p.pools[class-smallestBuffer].Get().(*buffer); ok {
		return found
	}
	return &buffer{b: make([]byte, 1<<class), class: class}
}

// put gives back a buffer, or nothing if it is nil.
func (p *buffers) put(b *buffer) {
	if b == nil {
		return
	}
	p.used.Add(-1 << b.class)
	p.pools[b.class-smallestBuffer].Put(b)
}
