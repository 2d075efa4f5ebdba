// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"
)

const (
	// batchWork is how many bytes one goroutine makes at a time at least, if there are as many, and maxPart at most,
	// unless one message is longer. maxSteps bounds the operations of a part.
	batchWork = 96 << 10
	maxPart   = 1 << 20
	maxSteps  = 512
	// smallCopy is how long an operation may be that is copied with others instead of ending a part.
	smallCopy = 1 << 10
	// inlineWork is how many bytes are made at once where they are read, when nothing
	// is under way: handing over takes longer than a little work.
	inlineWork = 16 << 10
	// patience is how many short reads in a row it takes until a connection gets a smaller
	// buffer.
	patience = 16
	// keptSteps is of how many operations a connection that waits keeps the space.
	keptSteps = 64
)

// pump moves what one side says to the other, in order. What is much is worked on by
// several goroutines at once.
type pump struct {
	front *Front
	from  io.Reader
	to    io.Writer
	dir   direction
	// memory bounds what was worked on and is not written yet; nil: nothing does.
	memory  *account
	context context.Context //nolint:containedctx // It ends with the connection.
	giveUp  func()          // ends it

	steps    []step // of the part that is read
	queue    chan *part
	inflight atomic.Int32
	failed   atomic.Pointer[error]
}

// part is operations that follow each other, and are either all passed on as they are or all worked on.
type part struct {
	source   *buffer
	in       []byte
	settings *generation
	steps    []step
	out      []byte  // nil: in
	memory   *buffer // of out
	granted  grant
	err      error
	done     chan struct{}
}

func newPump(f *Front, from io.Reader, to io.Writer, dir direction) *pump {
	return &pump{front: f, from: from, to: to, dir: dir, queue: make(chan *part, 2*runtime.GOMAXPROCS(0))}
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
		p.forget()
		n, err := p.from.Read(b.b[end:])
		end += n
		if n == 0 && err != nil {
			return err
		}
	}
}

// forget drops what steps refer to: buffers that were released.
func (p *pump) forget() {
	if cap(p.steps) > keptSteps {
		p.steps = nil
	}
	clear(p.steps[:cap(p.steps)])
}

// consume passes on the whole operations in b.b[*start:end] and returns how many bytes
// the one after them has, if that is known.
func (p *pump) consume(b *buffer, start *int, end int) (need int, err error) {
	next := part{source: b, settings: p.front.settings.Load()}
	from, work := *start, 0
	pass := func() error {
		next.in, next.steps = b.b[from:*start], p.steps
		n := work
		from, work, p.steps = *start, 0, p.steps[:0]
		return p.dispatch(next, n)
	}
	for *start < end {
		p.steps = append(p.steps, step{})
		s := &p.steps[len(p.steps)-1]
		need, err = p.dir.judge(b.b[*start:end], next.settings, s)
		if err != nil || len(s.raw) == 0 {
			p.steps = p.steps[:len(p.steps)-1]
			break
		}
		need = 0
		if s.work == 0 && work > 0 && len(s.raw) <= smallCopy {
			s.work = len(s.raw)
		}
		// What passes as it is does not wait for what does not, nor is it copied with it.
		if from < *start && (s.work > 0) != (work > 0) || work > 0 && work+s.work > maxPart {
			last := *s
			p.steps = p.steps[:len(p.steps)-1]
			if err := pass(); err != nil {
				return 0, err
			}
			p.steps = append(p.steps, last)
			s = &p.steps[len(p.steps)-1]
		}
		*start += len(s.raw)
		if work += s.work; work == 0 {
			p.steps = p.steps[:0]
		}
		if work >= batchWork || len(p.steps) == maxSteps {
			if err := pass(); err != nil {
				return 0, err
			}
		}
	}
	if passed := pass(); passed != nil {
		return 0, passed
	}
	return need, err
}

// dispatch passes on a part with so much work, now or when those before it were.
func (p *pump) dispatch(next part, work int) error {
	if len(next.in) == 0 {
		return nil
	}
	if err := p.dir.commit(); err != nil {
		return err
	}
	if work > inlineWork || p.inflight.Load() > 0 {
		return p.enqueue(next, work)
	}
	if work == 0 {
		_, err := p.to.Write(next.in)
		return err
	}
	p.execute(&next)
	defer next.memory.release()
	if len(next.out) > 0 {
		if _, err := p.to.Write(next.out); err != nil {
			return err
		}
	}
	return next.err
}

// enqueue has a part written after those before it, and worked on meanwhile.
func (p *pump) enqueue(next part, work int) error {
	next.done = make(chan struct{})
	if work == 0 {
		close(next.done)
	} else {
		if p.memory != nil {
			var err error
			if next.granted, err = p.memory.take(p.context, work); err != nil {
				return err
			}
		}
		p.steps = nil // They are the part's now.
		p.front.turns <- struct{}{}
	}
	next.source.hold()
	p.inflight.Add(1)
	if work > 0 {
		go func() {
			p.execute(&next)
			<-p.front.turns
			close(next.done)
		}()
	}
	p.queue <- &next
	return nil
}

func (p *pump) execute(next *part) {
	// This is how many bytes the result usually has at most. More are allocated when they are needed.
	next.memory = newBuffer(len(next.in) + len(next.in)/8 + 512)
	next.out, next.err = p.dir.execute(next.memory.b[:0], next.settings, next.steps)
}

// write is the half that writes what was worked on, in order.
func (p *pump) write() {
	for next := range p.queue {
		<-next.done
		if p.failed.Load() == nil {
			out := next.out
			if next.memory == nil {
				out = next.in
			}
			var err error
			if len(out) > 0 {
				_, err = p.to.Write(out)
			}
			if err == nil {
				err = next.err
			}
			if err != nil {
				p.fail(err)
			}
		}
		next.source.release()
		if next.memory != nil {
			next.memory.release()
		}
		if next.granted.of != nil {
			p.memory.give(next.granted)
		}
		p.inflight.Add(-1)
	}
}

// fail has who reads end.
func (p *pump) fail(err error) {
	p.failed.Store(&err)
	if p.giveUp != nil {
		p.giveUp()
	}
	if c, ok := p.from.(io.Closer); ok {
		_ = c.Close()
	}
}
