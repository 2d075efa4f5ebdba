// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ids remembers, over restarts, the ids of messages that were given to consumers.
//
// A server of NATS that starts knows the ids of the messages that it has. One that left the
// queue, because it was given and acknowledged, is put again by a client that does not know
// that it was stored: without this it would be stored twice. So the id of each message is
// written before it is given, which is before it can be acknowledged; and it is written
// only of messages that are in the stream, so that no id is known of one that is not.
// After a start, puts with these ids are answered as the server would have.
//
// The only member of a queue writes them to files (Log), several to a stream that they share (Shared). Both know
// them by the same index and write the same records.
package ids

import (
	"sync"
	"sync/atomic"
	"time"
)

// Keeper remembers ids. It is safe for concurrent use.
type Keeper interface {
	// Given remembers messages that are about to be given to a consumer. After an error they
	// must not be given.
	Given(messages []Message) error
	// Any reports whether Sequence may find something.
	Any() bool
	// Sequence returns that of the message with an id that was given and was stored within
	// the window, if that is known.
	Sequence(id []byte) (sequence uint64, ok bool)
	// SetWindow changes the window, from now on.
	SetWindow(d time.Duration)
	Close() error
}

// Known returns the sequence of a message with an id that was given before the server was started, which may not know
// it any more. A nil keeper knows none.
func Known(k Keeper, id []byte) (sequence uint64, ok bool) {
	if k == nil || !k.Any() {
		return 0, false
	}
	return k.Sequence(id)
}

// Message is one that is given to a consumer.
type Message struct {
	ID []byte
	// Sequence in the stream.
	Sequence uint64
	// Stored is when it was stored.
	Stored time.Time
}

// maxKnown bounds how many ids are held in memory.
const maxKnown = 1 << 20

// index is ids in memory. It is safe for concurrent use.
type index struct {
	window atomic.Int64
	now    func() time.Time

	mu     sync.RWMutex
	places map[digest]place
	newest int64   // the last second in which one of places was stored
	order  []entry // as they came
	old    int     // of order are forgotten
	most   int     // of order are not
}

type place struct {
	sequence uint64
	stored   int64 // seconds since 1970
}

type entry struct {
	id digest
	at place
}

func (x *index) init(window time.Duration, most int, now func() time.Time) {
	x.places, x.most, x.now = make(map[digest]place), most, now
	x.SetWindow(window)
}

// learn takes records. Sequences beyond last are of messages that were lost, and do not count. Of two messages with one
// id the later counts; beyond the limit the first that came are forgotten. It returns the last second in which one that
// was not lost was stored, and whether any was lost.
func (x *index) learn(records []byte, last uint64) (newest int64, lost bool) {
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	scan(records, func(id digest, at place) {
		if at.sequence > last {
			lost = true
			return
		}
		newest = max(newest, at.stored)
		if p, ok := x.places[id]; !x.counts(at, now) || ok && p.stored > at.stored || p == at {
			return
		}
		x.places[id] = at
		x.newest = max(x.newest, at.stored)
		x.order = append(x.order, entry{id, at})
	})
	for x.old < len(x.order) && (len(x.order)-x.old > x.most || !x.counts(x.order[x.old].at, now)) {
		if e := x.order[x.old]; x.places[e.id] == e.at {
			delete(x.places, e.id)
		}
		x.old++
	}
	if x.old > len(x.order)/2 {
		x.order = append([]entry(nil), x.order[x.old:]...)
		x.old = 0
	}
	return newest, lost
}

// records returns those of messages that count.
func (x *index) records(b []byte, messages []Message) []byte {
	now := x.now()
	for _, m := range messages {
		if at := (place{m.Sequence, m.Stored.Unix()}); len(m.ID) > 0 && x.counts(at, now) {
			b = appendRecord(b, digestOf(m.ID), at)
		}
	}
	return b
}

// counts reports whether the window of what was stored then has not ended. Seconds are
// rounded so that an id is known too long rather than too short, which is by one at most.
func (x *index) counts(p place, now time.Time) bool {
	return now.Sub(time.Unix(p.stored+1, 0)) < time.Duration(x.window.Load())
}

// SetWindow implements Keeper.
func (x *index) SetWindow(d time.Duration) { x.window.Store(int64(d)) }

// Any implements Keeper. Once all is too old it is forgotten.
func (x *index) Any() bool {
	x.mu.RLock()
	held, counts := len(x.places) > 0, x.counts(place{stored: x.newest}, x.now())
	x.mu.RUnlock()
	if !held || counts {
		return held
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if counts = x.counts(place{stored: x.newest}, x.now()); !counts { // Others may have given some meanwhile.
		x.places, x.order, x.old = make(map[digest]place), nil, 0
	}
	return counts
}

// Sequence implements Keeper.
func (x *index) Sequence(id []byte) (sequence uint64, ok bool) {
	if len(id) == 0 {
		return 0, false
	}
	sum := digestOf(id)
	x.mu.RLock()
	p, ok := x.places[sum]
	x.mu.RUnlock()
	if !ok || !x.counts(p, x.now()) {
		return 0, false
	}
	return p.sequence, true
}
