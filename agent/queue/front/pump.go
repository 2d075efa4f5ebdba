// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"
)

// part is what scan found at the start of what was read.
type part struct {
	// n bytes are whole operations.
	n int
	// need is how many bytes the operation after these has, if that is known.
	need int
	// work is how many bytes of these have to be compressed or inflated, or 1 when
	// something else has to be changed; 0: they are passed on as they are.
	work int
	// instead is passed on in their place unless it is nil. There is no work then.
	instead []byte
}

// direction is one of a connection: what is done with what comes from one side before
// it goes to the other.
type direction interface {
	// scan looks for whole operations, in the order in which they come, and notes what
	// later ones depend on.
	scan(buf []byte) (part, error)
	// transform appends to out what is passed on instead of the operations that scan
	// found. It is called for several parts at once, in any order.
	transform(out, in []byte) ([]byte, error)
}

// pump moves what one side says to the other, in order. What is much is worked on by
// several goroutines at once.
type pump struct {
	from  io.Reader
	to    io.Writer
	dir   direction
	turns chan struct{} // bounds how many work at once, of all connections
	// memory bounds what was worked on and is not written yet, of all connections, of which this is the taker, and held
	// is how many parts of this one are; nil: nothing does.
	memory  *allowance
	taker   *taker
	held    atomic.Int32
	written chan struct{}   // a part was
	context context.Context //nolint:containedctx // It ends with the connection.
	giveUp  func()          // ends it

	queue    chan *batch
	inflight atomic.Int32
	failed   atomic.Pointer[error]
}

// batch is a part that is worked on.
type batch struct {
	source *buffer
	in     []byte
	out    []byte // nil: in
	memory *buffer
	// granted says that memory was granted for it.
	granted bool
	err     error
	done    chan struct{}
}

// inlineWork is how many bytes are worked on at once where they are read, when nothing
// is under way: handing over takes longer than a little work.
const inlineWork = 16 << 10

func newPump(from io.Reader, to io.Writer, dir direction, turns chan struct{}) *pump {
	return &pump{
		from: from, to: to, dir: dir, turns: turns, queue: make(chan *batch, 2*runtime.GOMAXPROCS(0)),
		written: make(chan struct{}, 1),
	}
}

// run moves until either side ends or fails. first was read before.
func (p *pump) run(first []byte) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		p.write()
	}()
	err := p.read(first)
	close(p.queue)
	<-written
	if failed := p.failed.Load(); failed != nil {
		return *failed
	}
	return err
}

// read is the half that reads.
func (p *pump) read(first []byte) error {
	b := newBuffer(len(first))
	defer func() { b.release() }()
	start, end := 0, copy(b.b, first)
	idle := 0
	for {
		need, err := p.consume(b, &start, end)
		if err != nil {
			return err
		}
		if p.failed.Load() != nil {
			return nil
		}
		// What is left moves to the start of a buffer that has space for the rest.
		// A length that is only claimed does not decide how much is allocated.
		want := max(min(need, 4*len(b.b)), 1<<smallestBuffer)
		switch {
		case end == len(b.b):
			want, idle = max(want, min(2*len(b.b), 1<<readBuffer)), 0
		case end-start == 0 && end < len(b.b)/4:
			if idle++; idle < patience {
				want = max(want, min(len(b.b), 1<<readBuffer))
			}
		default:
			want, idle = max(want, min(len(b.b), 1<<readBuffer)), 0
		}
		left := b.b[start:end]
		if b.refs.Load() > 1 || start == 0 && end == len(b.b) || len(b.b) < want || len(b.b) > 2*want && len(left) <= want {
			fresh := newBuffer(max(want, len(left)+1))
			copy(fresh.b, left)
			b.release()
			b = fresh
		} else if start > 0 {
			copy(b.b, left)
		}
		start, end = 0, len(left)
		n, err := p.from.Read(b.b[end:])
		end += n
		if n == 0 && err != nil {
			return err
		}
	}
}

// patience is how many short reads in a row it takes until a connection gets a smaller
// buffer.
const patience = 16

// consume passes on the whole operations in b.b[*start:end] and returns how many bytes
// the one after them has, if that is known.
func (p *pump) consume(b *buffer, start *int, end int) (need int, err error) {
	for *start < end {
		found, err := p.dir.scan(b.b[*start:end])
		if found.n > 0 {
			in := b.b[*start : *start+found.n]
			*start += found.n
			if found.instead != nil {
				in = found.instead
			}
			if dispatched := p.dispatch(b, in, found.work); dispatched != nil {
				return 0, dispatched
			}
		}
		if err != nil {
			return 0, err
		}
		if found.n == 0 {
			return found.need, nil
		}
	}
	return 0, nil
}

// dispatch passes on a part, now or when those before it were.
func (p *pump) dispatch(b *buffer, in []byte, work int) error {
	if work > inlineWork || p.inflight.Load() > 0 {
		granted, err := p.ask(work)
		if err != nil {
			return err
		}
		next := &batch{source: b.hold(), in: in, granted: granted, done: make(chan struct{})}
		p.inflight.Add(1)
		if work == 0 {
			close(next.done)
		} else {
			p.turns <- struct{}{}
			go p.work(next)
		}
		p.queue <- next
		return nil
	}
	if work == 0 {
		if len(in) == 0 {
			return nil
		}
		_, err := p.to.Write(in)
		return err
	}
	memory := newBuffer(room(in))
	defer memory.release()
	out, err := p.dir.transform(memory.b[:0], in)
	if len(out) > 0 {
		if _, failed := p.to.Write(out); failed != nil {
			return failed
		}
	}
	return err
}

// ask waits until there is memory for what becomes of a part. A connection that holds some, and for
// which there is no more, waits until it holds none. granted says that memory was asked for at all.
func (p *pump) ask(work int) (granted bool, err error) {
	if p.memory == nil || work == 0 {
		return false, nil
	}
	if p.held.Load() > 0 && p.memory.try(work, p.taker) {
		p.held.Add(1)
		return true, nil
	}
	for p.held.Load() > 0 {
		select {
		case <-p.written:
		case <-p.context.Done():
			return false, p.context.Err()
		}
	}
	if err := p.memory.take(p.context, work, p.taker); err != nil {
		return false, err
	}
	p.held.Add(1)
	return true, nil
}

// room is how many bytes what becomes of a part usually has at most. More are allocated
// when they are needed.
func room(in []byte) int { return len(in) + len(in)/8 + 512 }

func (p *pump) work(b *batch) {
	b.memory = newBuffer(room(b.in))
	b.out, b.err = p.dir.transform(b.memory.b[:0], b.in)
	<-p.turns
	close(b.done)
}

// write is the half that writes what was worked on, in order.
func (p *pump) write() {
	for b := range p.queue {
		<-b.done
		if p.failed.Load() == nil {
			out := b.out
			if b.memory == nil {
				out = b.in
			}
			var err error
			if len(out) > 0 {
				_, err = p.to.Write(out)
			}
			if err == nil {
				err = b.err
			}
			if err != nil {
				p.failed.Store(&err)
				if p.giveUp != nil {
					p.giveUp()
				}
				if c, ok := p.from.(io.Closer); ok {
					_ = c.Close() // who reads learns it
				}
			}
		}
		b.source.release()
		if b.memory != nil {
			b.memory.release()
		}
		if b.granted {
			p.memory.end(p.taker)
			p.held.Add(-1)
			select {
			case p.written <- struct{}{}:
			default:
			}
		}
		p.inflight.Add(-1)
	}
}
