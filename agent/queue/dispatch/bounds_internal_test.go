// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// stream is one of messages that a dispatcher without a server is given.
type stream struct {
	*testing.T
	d *dispatcher
	r *rand.Rand
	// left are messages that were not delivered yet, messages and bytes how much of them was asked for.
	left            []*entry
	messages, bytes int
	// clock is the time, taken are messages in clients' hands.
	clock time.Time
	taken []*entry
}

const longest = 1000

var small = bounds{bytes: 20_000, pull: 5000, fetch: 3000, answered: 30 * time.Second}

func newStream(t *testing.T, seed uint64) *stream {
	t.Helper()
	h := New(Options{MaxPayload: longest})
	t.Cleanup(h.end)
	return &stream{
		T: t, r: rand.New(rand.NewPCG(seed, 1)), clock: time.Unix(1000, 0),
		d: &dispatcher{hub: h, bounds: small, window: newWindow()},
	}
}

func (s *stream) put(key string) {
	e := &entry{sequence: uint64(len(s.left) + 1), key: key, size: longest/2 + s.r.IntN(longest/2+1), message: &nats.Msg{}}
	s.left = append(s.left, e)
}

// turn lets some of what was asked for come, and clients take all that they can get, in half a second.
func (s *stream) turn() {
	s.Helper()
	s.clock = s.clock.Add(time.Second / 2)
	w := s.d.window
	w.expire(s.clock)
	if f := s.d.rereading.fetching; f != nil && s.r.IntN(2) == 0 {
		for i := range f.messages {
			f.messages[i] = &nats.Msg{}
			if s.r.IntN(20) == 0 {
				f.messages[i] = nil // the server did not answer
			}
		}
		s.d.take(f, s.clock)
	}
	for s.messages > 0 && s.r.IntN(8) > 0 {
		if len(s.left) == 0 || s.left[0].size > s.bytes {
			s.messages = 0
			break
		}
		e := s.left[0]
		s.left = s.left[1:]
		s.messages, s.bytes = s.messages-1, s.bytes-e.size
		w.add(e, s.clock)
	}
	s.check()
	for e := w.peek(s.clock); e != nil; e = w.peek(s.clock) {
		if e.message == nil {
			s.Fatalf("message %d is given out without its payload", e.sequence)
		}
		w.lease(e, 1, s.clock.Add(MaxVisibility), s.clock)
		s.taken = append(s.taken, e)
	}
	s.d.next(s.clock)
	if s.messages == 0 {
		s.messages, s.bytes = s.d.asks(s.clock)
	}
	s.check()
}

// check holds what there is to the bounds.
func (s *stream) check() {
	s.Helper()
	bytes := 0
	for _, e := range s.d.window.entries {
		if e.message != nil {
			bytes += e.size
		}
	}
	reading := 0
	if f := s.d.rereading.fetching; f != nil {
		for _, e := range f.entries {
			reading += e.size
		}
	}
	if reading > small.fetch {
		s.Fatalf("%d bytes are read again at once", reading)
	}
	if most := small.bytes + longest + small.pull; bytes+reading > most {
		s.Fatalf("%d bytes are held and %d read again; the limit is %d", bytes, reading, most)
	}
}

// TestBounds: whatever is behind messages that somebody keeps, no more is held than allowed, others get what there is,
// and when it is acknowledged all comes in its order. Many keys wait for the same space.
func TestBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := newStream(t, seed)
		const keys, each, others = 30, 20, 40
		for range each {
			for k := range keys {
				s.put(fmt.Sprint("key", k))
			}
		}
		for range others {
			s.put("")
		}
		for turns := 0; len(s.taken) < keys+others; turns++ {
			if s.turn(); turns > 10_000 {
				t.Fatalf("seed %d: %d messages are given out, and there are %d that can be", seed, len(s.taken), keys+others)
			}
		}
		// One of them comes back, and its payload with it.
		back := s.taken[0]
		s.taken = s.taken[1:]
		s.d.window.release(back, s.clock, s.clock)
		last, all := make(map[string]uint64), 0
		for turns := 0; all < keys*each+others; turns++ {
			if turns > 10_000 {
				t.Fatalf("seed %d: %d of %d messages came", seed, all, keys*each+others)
			}
			taken := s.taken
			s.taken = nil
			for _, e := range taken {
				if e.key != "" && e.sequence <= last[e.key] {
					t.Fatalf("seed %d: message %d of %s after %d", seed, e.sequence, e.key, last[e.key])
				}
				last[e.key] = max(e.sequence, last[e.key])
				s.d.window.remove(e, s.clock)
				all++
			}
			s.turn()
		}
	}
}

// TestOldestIsReadFirst: of several that are wanted, and for which there is no space at once, none waits for ever; what
// is alone is read in any case.
func TestOldestIsReadFirst(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := newWindow()
	for i, key := range []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"} {
		w.add(&entry{sequence: uint64(i + 1), key: key, size: 100, message: &nats.Msg{}}, now)
	}
	w.forget(0, now)
	if w.bytes != 3*100+6 {
		t.Errorf("%d bytes count", w.bytes)
	}
	for sequence := range uint64(3) {
		w.remove(w.entries[sequence+1], now)
	}
	read := func(bytes int) (sequences string) {
		t.Helper()
		for _, e := range w.due(bytes, now) {
			sequences += fmt.Sprint(e.sequence, " ")
			w.restore(e, &nats.Msg{}, now)
		}
		return sequences
	}
	for _, c := range []struct {
		bytes int
		want  string
	}{{10, "4 "}, {200, "5 6 "}, {1000, ""}} {
		if got := read(c.bytes); got != c.want {
			t.Errorf("%+v: %q is read", c, got)
		}
	}
	w.remove(w.entries[4], now)
	if got := read(1000); got != "7 " {
		t.Errorf("%q is read after what was before it went", got)
	}
}
