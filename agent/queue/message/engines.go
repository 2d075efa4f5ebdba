// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"io"
	"runtime"
	"sync"
)

// pool keeps encoders or decoders, whose memory is not Go's, to be used again. It is
// safe for concurrent use.
type pool[T io.Closer] struct {
	create func() (T, error)

	mu     sync.Mutex
	free   []T
	closed bool
}

func (p *pool[T]) get() (T, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		x := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return x, nil
	}
	p.mu.Unlock()
	return p.create()
}

// put gives back what get returned. More than can be busy at once are not kept.
func (p *pool[T]) put(x T) {
	p.mu.Lock()
	keep := !p.closed && len(p.free) < 2*runtime.GOMAXPROCS(0)
	if keep {
		p.free = append(p.free, x)
	}
	p.mu.Unlock()
	if !keep {
		_ = x.Close()
	}
}

// close frees what is unused now, and what is in use when it is given back.
func (p *pool[T]) close() {
	p.mu.Lock()
	p.closed = true
	free := p.free
	p.free = nil
	p.mu.Unlock()
	for _, x := range free {
		_ = x.Close()
	}
}
