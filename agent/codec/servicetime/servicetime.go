// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servicetime estimates how long an accelerator works on calls, without the time for which they wait for each
// other, for other processes, or for a processor.
package servicetime

import (
	"math/bits"
	"sync"
	"time"
)

// Operation is what an accelerator does in a call.
type Operation uint8

const (
	// Deflate compresses.
	Deflate Operation = iota
	// Inflate decompresses.
	Inflate
	operations
)

// window is for how long the quickest call of a class counts at least, and twice that at most while there are calls.
const window = time.Minute

// Meter sums up what calls took of an accelerator: each call what the quickest ones of its length took lately, and
// never more than it took itself. Of lengths within a factor of two, the estimate is exact where time grows with
// length, and where it does not; in between it is up to an eighth too low. The zero value is ready to use, and safe for
// concurrent use.
type Meter struct {
	mu      sync.Mutex
	total   time.Duration
	classes [operations][bits.UintSize + 1]class
}

// class is what is known of calls whose lengths have as many bits.
type class struct {
	began       time.Time // the window
	now, before least     // of this window and of the one before it
}

// least is what the quickest calls took, in nanoseconds; 0: there was none.
type least struct{ call, perByte float64 }

func (l least) and(o least) least { return least{lower(l.call, o.call), lower(l.perByte, o.perByte)} }

func lower(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Add takes in a call that ended now, on plain data of a length in bytes.
func (m *Meter) Add(o Operation, length int, took time.Duration, now time.Time) {
	nanos := float64(max(took, 1))
	bytes := float64(max(length, 1))
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.classes[o][bits.Len(uint(max(length, 0)))]
	if now.Sub(c.began) >= window {
		c.before, c.now, c.began = c.now, least{}, now
	}
	c.now = c.now.and(least{nanos, nanos / bytes})
	quickest := c.now.and(c.before)
	m.total += time.Duration(min(nanos, max(quickest.call, quickest.perByte*bytes)))
}

// Total is what all calls took so far.
func (m *Meter) Total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}
