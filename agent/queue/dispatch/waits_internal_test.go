// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestCount: messages that were given back for later are counted as those are that clients have, until they may be
// given out again: gets wait for both.
func TestCount(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	d, w, now := s.d, s.d.window, s.clock
	entries := make([]*entry, 5)
	for i := range entries {
		entries[i] = &entry{sequence: uint64(i + 1), message: &nats.Msg{}}
		w.add(entries[i], now)
	}
	expect := func(what string, held, again int64) {
		t.Helper()
		w.expire(now)
		if d.count(now); d.held.Load() != held || d.again.Load() != again {
			t.Errorf("%s: %d are counted, %d of them again, want %d and %d", what, d.held.Load(), d.again.Load(), held, again)
		}
	}
	expect("nothing was given out", 0, 0)
	for _, e := range entries[:4] {
		w.lease(e, 1, now.Add(time.Hour), now)
	}
	expect("given out", 4, 0)
	w.lease(entries[0], 2, now.Add(time.Hour), now)
	expect("one of them again", 4, 1)
	w.release(entries[0], now.Add(time.Minute), now)
	w.release(entries[1], now.Add(time.Minute), now)
	w.release(entries[2], now, now)
	expect("two given back for later, and one at once", 3, 1)
	w.occupy(entries[3])
	expect("one is being acknowledged", 3, 1)
	now = now.Add(time.Minute)
	expect("it is later", 1, 0)
	now = now.Add(time.Hour)
	expect("the one is acknowledged still", 1, 0)
	w.remove(entries[3], now)
	expect("it was", 0, 0)
}

// TestSoonest: what could not be read is tried again when it is time, and not at the next tick; where it is not that
// which is waited for, nothing is due all the time.
func TestSoonest(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	d, now := s.d, s.clock
	expect := func(what string, want time.Time) {
		t.Helper()
		if got := d.soonest(now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("nothing is wanted", time.Time{})
	e := &entry{sequence: 1, reply: "reply", away: true}
	d.window.add(e, now)
	expect("one is wanted", time.Time{})
	f := d.next(now)
	if f == nil {
		t.Fatal("it is not read")
	}
	d.take(f, now)
	expect("it could not be read", now.Add(fetchInterval))
	if d.next(now) != nil {
		t.Error("it is read again at once")
	}
	other := &entry{sequence: 2, message: &nats.Msg{}, until: now.Add(fetchInterval / 2)}
	d.window.add(other, now)
	expect("another may be given out before", other.until)
	d.window.remove(other, now)
	now = now.Add(fetchInterval)
	expect("it is time", time.Time{})
	if d.next(now) == nil {
		t.Error("it is not tried again")
	}
}

// TestHold: what is read to become dead letters has a bound in bytes and in number, and nobody
// waits for it when the dispatcher has ended. Dead letters have a quarter of what messages have.
func TestHold(t *testing.T) {
	t.Parallel()
	h := New(Options{MaxPayload: longest})
	t.Cleanup(h.end)
	h.bounds = bounds{bytes: 64 << 10, pull: 16 << 10, fetch: 8 << 10, answered: time.Second}
	if got, want := h.newDispatcher(deadLetters).bounds, (bounds{
		bytes: 16 << 10, pull: 4 << 10, fetch: 2 << 10, answered: time.Second,
	}); got != want {
		t.Errorf("dead letters: %+v, want %+v", got, want)
	}
	for _, c := range []struct{ size, most int }{
		{1, answersAtOnce},
		{512, answersAtOnce},
		{1 << 10, 8},
		{8 << 10, 1},
		{1 << 20, 1},
	} {
		d := h.newDispatcher(messages)
		if d.bounds != h.bounds {
			t.Fatalf("messages: %+v", d.bounds)
		}
		var drops []func()
		for range c.most {
			drop, ok := d.hold(c.size)
			if !ok {
				t.Fatalf("%d bytes are not read", c.size)
			}
			drops = append(drops, drop)
		}
		if d.rereads.TryAcquire(min(int64(c.size), 8<<10)) {
			t.Errorf("more than %d with %d bytes are read", c.most, c.size)
		}
		held := make(chan bool)
		go func() {
			_, ok := d.hold(c.size)
			held <- ok
		}()
		d.end(errEnded)
		if <-held {
			t.Errorf("%d bytes are read after the end", c.size)
		}
		for _, drop := range drops {
			drop()
		}
		if !d.rereads.TryAcquire(8 << 10) {
			t.Errorf("not all is given back of those with %d bytes", c.size)
		}
	}
}
