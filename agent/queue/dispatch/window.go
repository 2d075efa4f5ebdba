// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"container/heap"
	"time"

	"github.com/nats-io/nats.go"
)

// entry is a message that the consumer has delivered and nobody has acknowledged.
type entry struct {
	sequence uint64
	key      string
	message  *nats.Msg // nil when it is away
	reply    string    // where it is acknowledged
	put      time.Time
	// size in bytes as it is stored, and at most when it is made plain.
	size, plain int

	// count is how often it was given out, and nonce of the last time.
	count uint32
	nonce uint64
	// until is when it may be given out again. leased says that a client has it until then. given is when it was given
	// out last.
	until  time.Time
	leased bool
	given  time.Time
	// timer is when that is looked at, and place where it is among the timed ones, counted from 1; 0: it is none of
	// them.
	timer time.Time
	place int
	// busy says that it is being acknowledged or moved. It is not given out.
	busy bool
	// spared says that there was no space for it among the dead letters.
	spared bool
	gone   bool
	// away says that its payload was forgotten, and is to be read again before it is given out.
	away bool
}

// counted is how much of the window's bytes an entry takes.
func (e *entry) counted() int {
	if e.away {
		return len(e.key)
	}
	return e.size
}

// window holds the messages that are given out next or are with clients. It is pure: it
// knows the time from its caller. Messages without a key have no order among each other.
type window struct {
	entries map[uint64]*entry
	keys    map[string][]*entry // in order of sequence
	// ready may hold entries that are not so any more, and timed may be looked at too early. Each is in timed at most
	// once.
	ready, timed entries
	bytes        int // what they count, together
	// wanted are those that could be given out if they were not away. Some may have changed since.
	wanted map[uint64]*entry
	// held are those that are with clients, or busy.
	held map[uint64]*entry
}

func newWindow() *window {
	return &window{
		entries: make(map[uint64]*entry), keys: make(map[string][]*entry), held: make(map[uint64]*entry),
		wanted: make(map[uint64]*entry),
		ready:  entries{before: func(a, b *entry) bool { return a.sequence < b.sequence }},
		timed:  entries{before: func(a, b *entry) bool { return a.timer.Before(b.timer) }, placed: true},
	}
}

// add takes over an entry, later in sequence than all of its key that were added before.
func (w *window) add(e *entry, now time.Time) {
	w.entries[e.sequence] = e
	w.bytes += e.counted()
	if e.key != "" {
		w.keys[e.key] = append(w.keys[e.key], e)
	}
	if e.leased {
		w.held[e.sequence] = e
	}
	w.offer(e, now)
}

// offer puts an entry where it is looked for, if it is its turn.
func (w *window) offer(e *entry, now time.Time) {
	switch {
	case e.gone || e.busy || !w.first(e):
	case e.until.After(now):
		w.await(e)
	default:
		if e.leased {
			e.leased = false
			delete(w.held, e.sequence)
		}
		if e.away {
			w.wanted[e.sequence] = e
			return
		}
		heap.Push(&w.ready, e)
	}
}

// await has an entry offered again when it may be given out.
func (w *window) await(e *entry) {
	e.timer = e.until
	if e.place > 0 {
		heap.Fix(&w.timed, e.place-1)
		return
	}
	heap.Push(&w.timed, e)
}

// first reports whether there is none of its key before an entry.
func (w *window) first(e *entry) bool { return e.key == "" || w.keys[e.key][0] == e }

// expire offers what was with clients, or delayed, for long enough.
func (w *window) expire(now time.Time) {
	for len(w.timed.all) > 0 && !w.timed.all[0].timer.After(now) {
		e := w.timed.all[0]
		heap.Pop(&w.timed)
		w.offer(e, now)
	}
}

// next is when expire has something to do; zero: never.
func (w *window) next() time.Time {
	if len(w.timed.all) == 0 {
		return time.Time{}
	}
	return w.timed.all[0].timer
}

// peek returns the first message that may be given out; nil: there is none.
func (w *window) peek(now time.Time) *entry {
	for len(w.ready.all) > 0 {
		e := w.ready.all[0]
		if !e.gone && !e.busy && !e.away && !e.until.After(now) && w.first(e) {
			return e
		}
		heap.Pop(&w.ready)
	}
	return nil
}

// lease gives out an entry.
func (w *window) lease(e *entry, nonce uint64, until, now time.Time) {
	e.count++
	e.nonce, e.given = nonce, now
	w.extend(e, until, now)
}

// extend changes until when a client has an entry.
func (w *window) extend(e *entry, until, now time.Time) {
	e.until, e.leased = until, true
	w.held[e.sequence] = e
	w.offer(e, now)
}

// release gives an entry back, to be given out at a time.
func (w *window) release(e *entry, at, now time.Time) {
	e.until, e.leased, e.nonce = at, false, 0
	delete(w.held, e.sequence)
	w.offer(e, now)
}

// occupy keeps an entry from being given out; vacate ends that.
func (w *window) occupy(e *entry) {
	e.busy = true
	w.held[e.sequence] = e
}

func (w *window) vacate(e *entry, now time.Time) {
	e.busy = false
	if !e.leased {
		delete(w.held, e.sequence)
	}
	w.offer(e, now)
}

// remove forgets an entry, and offers the next of its key.
func (w *window) remove(e *entry, now time.Time) {
	if e.gone {
		return
	}
	e.gone = true
	delete(w.entries, e.sequence)
	delete(w.held, e.sequence)
	delete(w.wanted, e.sequence)
	if e.place > 0 {
		heap.Remove(&w.timed, e.place-1)
	}
	w.bytes -= e.counted()
	e.message = nil
	if e.key == "" {
		return
	}
	rest := w.keys[e.key]
	for i := range rest {
		if rest[i] == e {
			copy(rest[i:], rest[i+1:])
			rest[len(rest)-1] = nil
			rest = rest[:len(rest)-1]
			break
		}
	}
	if len(rest) == 0 {
		delete(w.keys, e.key)
		return
	}
	w.keys[e.key] = rest
	w.offer(rest[0], now)
}

// entries are a heap of some, by an order.
type entries struct {
	all    []*entry
	before func(a, b *entry) bool
	// placed says that entries know where they are.
	placed bool
}

func (h *entries) Len() int           { return len(h.all) }
func (h *entries) Less(i, j int) bool { return h.before(h.all[i], h.all[j]) }

func (h *entries) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.place(i, i+1)
	h.place(j, j+1)
}

func (h *entries) place(i, place int) {
	if h.placed {
		h.all[i].place = place
	}
}

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	if e, ok := x.(*entry); ok {
		h.all = append(h.all, e)
		h.place(len(h.all)-1, len(h.all))
	}
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(h.all) - 1
	h.place(last, 0)
	e := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	return e
}
