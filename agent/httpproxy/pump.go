// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"io"
	"sync"
	"time"
)

// pump reads a body while what it has read is worked on. What arrives meanwhile makes
// the next part: the slower the work, the larger its parts, and the fewer.
type pump struct {
	body  io.ReadCloser
	chunk []byte
	// ready has something when there is news for take, space when there is some for read.
	ready, space chan struct{}
	stopped      chan struct{}
	ended        chan struct{}

	mu   sync.Mutex
	fill []byte // what has arrived; never grows beyond its capacity
	err  error  // io.EOF at the end
}

// newPump begins to read a body through chunk into fill. stop has to follow.
func newPump(body io.ReadCloser, chunk, fill []byte) *pump {
	p := &pump{
		body: body, chunk: chunk, fill: fill[:0],
		ready: make(chan struct{}, 1), space: make(chan struct{}, 1), stopped: make(chan struct{}),
		ended: make(chan struct{}),
	}
	go p.read()
	return p
}

func (p *pump) read() {
	defer close(p.ended)
	for {
		n, err := p.body.Read(p.chunk)
		rest := p.chunk[:n]
		for {
			p.mu.Lock()
			fits := min(len(rest), cap(p.fill)-len(p.fill))
			p.fill = append(p.fill, rest[:fits]...)
			rest = rest[fits:]
			if len(rest) == 0 {
				p.err = err
			}
			p.mu.Unlock()
			signal(p.ready)
			if len(rest) == 0 {
				break
			}
			select {
			case <-p.space:
			case <-p.stopped:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns what has arrived, and gives the pump a buffer for what follows in its
// place. It waits for the first byte, and then at most for a time for as many as
// wanted. The error is io.EOF with the last bytes, or after them.
func (p *pump) take(empty []byte, want int, patience time.Duration) ([]byte, error) {
	var timer *time.Timer
	var late <-chan time.Time
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		p.mu.Lock()
		n, err := len(p.fill), p.err
		if err != nil || n >= want || n == cap(p.fill) {
			return p.swap(empty)
		}
		p.mu.Unlock()
		if n > 0 && timer == nil {
			timer = time.NewTimer(patience)
			late = timer.C
		}
		select {
		case <-p.ready:
		case <-late:
			p.mu.Lock()
			return p.swap(empty)
		}
	}
}

// swap takes out what has arrived. The lock is held, and released.
func (p *pump) swap(empty []byte) ([]byte, error) {
	taken, err := p.fill, p.err
	p.fill = empty[:0]
	p.mu.Unlock()
	signal(p.space)
	return taken, err
}

// stop ends the reading and waits for its end, after which nothing is touched.
func (p *pump) stop() {
	close(p.stopped)
	p.body.Close()
	<-p.ended
}
