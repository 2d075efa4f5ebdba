// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// tally is what was counted in one part.
type tally struct {
	gets, storedGets, puts, duplicates, refused int64
}

// counters of a front.
type counters struct {
	gets, storedGets, puts, duplicates, refusedPuts atomic.Int64
	opened, closed, refused, unauthenticated        atomic.Int64
	forbidden                                       atomic.Int64
	undecodable, wire                               atomic.Int64
}

func (c *counters) add(t tally) {
	for _, pair := range []struct {
		to *atomic.Int64
		n  int64
	}{
		{&c.gets, t.gets},
		{&c.storedGets, t.storedGets},
		{&c.puts, t.puts},
		{&c.duplicates, t.duplicates},
		{&c.refusedPuts, t.refused},
	} {
		if pair.n > 0 {
			pair.to.Add(pair.n)
		}
	}
}

// Rate counts something and how often it happened.
type Rate struct {
	Count int64
	// PerSecond in the last window, and the highest that was in any.
	PerSecond, Highest float64
}

// Statistics are since the start or the last reset, but for Connections.
type Statistics struct {
	// Puts that were acknowledged, Gets that were delivered with a way to acknowledge them,
	// Encoded and Decoded messages that were compressed and inflated.
	Puts, Gets, Encoded, Decoded Rate
	// StoredGets of the gets were delivered in the form of package message.
	StoredGets int64
	// RefusedPuts by the stream or the front, Duplicates that were acknowledged and not
	// stored again.
	RefusedPuts, Duplicates int64
	// Undecodable messages were delivered as they are stored, because they are damaged.
	Undecodable int64
	// Connections of clients that are open, and the most that were at once.
	Connections, HighWater int64
	// Opened and Closed connections, Refused ones because there were too many, and
	// Unauthenticated ones.
	Opened, Closed, Refused, Unauthenticated int64
	// Forbidden requests were for what the client may not do.
	Forbidden int64
	// WireBytes were written to and read from clients, TLS included.
	WireBytes int64
	// Compression and Decompression of payloads.
	Compression, Decompression meter.Snapshot
	// Tried messages that were put are those that an engine worked on, whether they shrank or not. What they took is
	// Compression.CPU.
	Tried int64
	// CompressedPlainBytes and CompressedBytes are of the messages that were compressed,
	// RecentPlainBytes and RecentBytes of those of the last window in which there was any.
	CompressedPlainBytes, CompressedBytes, RecentPlainBytes, RecentBytes int64
	Since                                                                time.Time
}

// window is how long rates are taken over.
const window = 10 * time.Second

// history turns counts into rates. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	since time.Time
	base  totals // at the last reset
	last  totals // at the start of this window
	begun time.Time

	rates, highest [rates]float64
	recentPlain    int64
	recentBytes    int64
	highWater      int64
}

// The rates.
const (
	putRate = iota
	getRate
	encodeRate
	decodeRate

	rates
)

// totals are all counts at one moment.
type totals struct {
	counts [rates]int64

	storedGets, refusedPuts, duplicates, undecodable int64
	opened, closed, refused, unauthenticated, wire   int64
	forbidden                                        int64
	plain, compressed                                int64
	compression, decompression                       meter.Snapshot
}

func (f *Front) totals() totals {
	c := &f.counters
	t := totals{
		storedGets: c.storedGets.Load(), refusedPuts: c.refusedPuts.Load(), duplicates: c.duplicates.Load(),
		undecodable: c.undecodable.Load(),
		opened:      c.opened.Load(), closed: c.closed.Load(), refused: c.refused.Load(),
		unauthenticated: c.unauthenticated.Load(), wire: c.wire.Load(), forbidden: c.forbidden.Load(),
		compression: f.encoded.Snapshot(), decompression: f.decoded.Snapshot(),
	}
	encoded, decoded := &t.compression, &t.decompression
	t.counts = [rates]int64{
		putRate: c.puts.Load(), getRate: c.gets.Load(), encodeRate: encoded.Hardware.Operations + encoded.Software.Operations,
		decodeRate: decoded.Hardware.Operations + decoded.Software.Operations,
	}
	t.plain = encoded.Hardware.Bytes + encoded.Software.Bytes
	t.compressed = encoded.CompressedBytes - encoded.Stored.Bytes
	return t
}

// tick ends the window if it has lasted long enough.
func (h *history) tick(now time.Time, t totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	length := now.Sub(h.begun)
	if length < window {
		return
	}
	for i := range h.rates {
		h.rates[i] = float64(t.counts[i]-h.last.counts[i]) / length.Seconds()
		h.highest[i] = max(h.highest[i], h.rates[i])
	}
	if plain := t.plain - h.last.plain; plain > 0 {
		h.recentPlain, h.recentBytes = plain, t.compressed-h.last.compressed
	}
	h.begun, h.last = now, t
}

// reset begins again.
func (h *history) reset(now time.Time, t totals, connections int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.base, h.last, h.begun = now, t, t, now
	h.rates, h.highest = [rates]float64{}, [rates]float64{}
	h.recentPlain, h.recentBytes, h.highWater = 0, 0, connections
}

// connected notes how many connections are open.
func (h *history) connected(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.highWater = max(h.highWater, n)
}

// Statistics returns what was counted.
func (f *Front) Statistics() Statistics {
	now, t := f.totals(), &f.history
	f.history.tick(time.Now(), now)
	t.mu.Lock()
	defer t.mu.Unlock()
	rate := func(i int) Rate {
		return Rate{Count: now.counts[i] - t.base.counts[i], PerSecond: t.rates[i], Highest: t.highest[i]}
	}
	compression := now.compression.Minus(t.base.compression)
	return Statistics{
		Tried: message.WorkedOn(compression),
		Puts:  rate(putRate), Gets: rate(getRate), Encoded: rate(encodeRate), Decoded: rate(decodeRate),
		StoredGets: now.storedGets - t.base.storedGets, RefusedPuts: now.refusedPuts - t.base.refusedPuts,
		Duplicates:  now.duplicates - t.base.duplicates,
		Undecodable: now.undecodable - t.base.undecodable,
		Connections: f.open.Load(), HighWater: t.highWater,
		Opened: now.opened - t.base.opened, Closed: now.closed - t.base.closed, Refused: now.refused - t.base.refused,
		Unauthenticated: now.unauthenticated - t.base.unauthenticated, Forbidden: now.forbidden - t.base.forbidden,
		WireBytes:   now.wire - t.base.wire,
		Compression: compression, Decompression: now.decompression.Minus(t.base.decompression),
		CompressedPlainBytes: now.plain - t.base.plain, CompressedBytes: now.compressed - t.base.compressed,
		RecentPlainBytes: t.recentPlain, RecentBytes: t.recentBytes, Since: t.since,
	}
}

// ResetStatistics begins counting again.
func (f *Front) ResetStatistics(now time.Time) {
	f.history.reset(now, f.totals(), f.open.Load())
}
