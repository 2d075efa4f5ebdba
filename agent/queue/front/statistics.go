// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Counter is what a front counts.
type Counter int

// The counters.
const (
	// Puts that were acknowledged, and Duplicates among them that were not stored again. RefusedPuts by the stream or
	// the front.
	Puts Counter = iota
	Duplicates
	RefusedPuts
	// Gets that were delivered with a way to acknowledge them. StoredGets of these were delivered in the form of package
	// message.
	Gets
	StoredGets
	// Undecodable messages were delivered as they are stored, because they are damaged.
	Undecodable
	// Opened and Closed connections, Refused ones because there were too many, and Unauthenticated ones.
	Opened
	Closed
	Refused
	Unauthenticated
	// ForbiddenRequests were for what the client may not do.
	ForbiddenRequests

	numCounters
)

type counts [numCounters]int64

type counters [numCounters]atomic.Int64

func (c *counters) add(n counts) {
	for i := range n {
		if n[i] > 0 {
			c[i].Add(n[i])
		}
	}
}

// Statistics are since the start or the last reset, but for the connections that are open.
type Statistics struct {
	*wirev1.QueueStatistics
	Undecodable uint64
	// Wire is of the connections of clients.
	Wire transport.Counted
	// Compression and Decompression of payloads.
	Compression, Decompression meter.Snapshot
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
	recent         totals // of the last window in which messages were compressed
	recentTried    totals // of the last window in which an engine worked on messages
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
	counts                     counts
	wire                       transport.Counted
	compression, decompression meter.Snapshot
}

// rated are the counts of which there are rates.
func (t totals) rated() [rates]int64 {
	worked := func(s meter.Snapshot) int64 { return s.Hardware.Operations + s.Software.Operations }
	return [rates]int64{t.counts[Puts], t.counts[Gets], worked(t.compression), worked(t.decompression)}
}

// bytes are those of messages that were compressed, before and after.
func (t totals) bytes() (plain, compressed int64) {
	s := t.compression
	return s.Hardware.Bytes + s.Software.Bytes, s.CompressedBytes - s.Stored.Bytes
}

// minus returns what was counted since.
func (t totals) minus(base totals) totals {
	for i := range t.counts {
		t.counts[i] -= base.counts[i]
	}
	t.wire = t.wire.Minus(base.wire)
	t.compression, t.decompression = t.compression.Minus(base.compression), t.decompression.Minus(base.decompression)
	return t
}

func (f *Front) totals() totals {
	t := totals{
		wire: f.wire.Counted(), compression: f.encoded.Snapshot(), decompression: f.decoded.Snapshot(),
	}
	for i := range f.counters {
		t.counts[i] = f.counters[i].Load()
	}
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
	lately := t.minus(h.last)
	for i, n := range lately.rated() {
		h.rates[i] = float64(n) / length.Seconds()
		h.highest[i] = max(h.highest[i], h.rates[i])
	}
	if plain, _ := lately.bytes(); plain > 0 {
		h.recent = lately
	}
	if message.WorkedOn(lately.compression) > 0 {
		h.recentTried = lately
	}
	h.begun, h.last = now, t
}

// reset begins again.
func (h *history) reset(now time.Time, t totals, connections int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.base, h.last, h.begun = now, t, t, now
	h.rates, h.highest = [rates]float64{}, [rates]float64{}
	h.recent, h.recentTried, h.highWater = totals{}, totals{}, connections
}

// connected notes how many connections are open.
func (h *history) connected(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.highWater = max(h.highWater, n)
}

// Statistics returns what was counted.
func (f *Front) Statistics() Statistics {
	now, h := f.totals(), &f.history
	h.tick(time.Now(), now)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := now.minus(h.base)
	rated := t.rated()
	rate := func(i int) *wirev1.QueueRate {
		return &wirev1.QueueRate{
			Count: uint64(rated[i]), MilliPerSecond: uint64(h.rates[i] * 1000), HighMilliPerSecond: uint64(h.highest[i] * 1000),
		}
	}
	n := func(c Counter) uint64 { return uint64(t.counts[c]) }
	plain, compressed := t.bytes()
	recentPlain, recentBytes := h.recent.bytes()
	return Statistics{
		QueueStatistics: &wirev1.QueueStatistics{
			Puts: rate(putRate), Gets: rate(getRate), Compressions: rate(encodeRate), Decompressions: rate(decodeRate),
			CompressedPlainBytes: uint64(plain), CompressedBytes: uint64(compressed),
			RecentPlainBytes: uint64(recentPlain), RecentBytes: uint64(recentBytes),
			RecentOperations: uint64(h.recent.rated()[encodeRate]),
			RecentTried:      uint64(message.WorkedOn(h.recentTried.compression)),
			RecentTriedNanos: uint64(max(h.recentTried.compression.CPU, 0)),
			Tried:            uint64(message.WorkedOn(t.compression)), TriedNanos: uint64(max(t.compression.CPU, 0)),
			StoredFormGets: n(StoredGets), RefusedPuts: n(RefusedPuts), Duplicates: n(Duplicates),
			Connections: uint64(max(f.open.Load(), 0)), HighWaterConnections: uint64(h.highWater),
			Opened: n(Opened), Closed: n(Closed), RefusedConnections: n(Refused), FailedAuthentications: n(Unauthenticated),
			ForbiddenRequests: n(ForbiddenRequests), Since: timestamppb.New(h.since),
		},
		Wire: t.wire, Undecodable: n(Undecodable), Compression: t.compression, Decompression: t.decompression,
	}
}

// ResetStatistics begins counting again.
func (f *Front) ResetStatistics(now time.Time) {
	f.history.reset(now, f.totals(), f.open.Load())
	f.classes.Reset()
}

// What follows is for another way into the same queue, which serves the same clients by
// the same settings and counts where the front does.

// Settings returns those in effect.
func (f *Front) Settings() Settings { return f.settings.Load().Settings }

// Audit is where it is noted who does what.
func (f *Front) Audit() *audit.Log { return f.audit }

// Classes decide in mode Auto about messages that are put.
func (f *Front) Classes() *classes.Classes { return f.classes }

// Decisions says what is decided about messages that are put; nil in other modes than Auto.
func (f *Front) Decisions() *wirev1.Decisions { return f.classes.Decisions(f.settings.Load().Encoding) }

// Count adds one to a counter.
func (f *Front) Count(c Counter) { f.counters[c].Add(1) }

// Wire is where connections of clients are counted, TLS included.
func (f *Front) Wire() *transport.Counter { return &f.wire }

// Encoded is where messages are counted that are put, and Decoded where those that are inflated.
func (f *Front) Encoded() *meter.Meter { return &f.encoded }

// Decoded see Encoded.
func (f *Front) Decoded() *meter.Meter { return &f.decoded }

// TLSConfig returns the one of new connections, nil if they have no TLS.
func (f *Front) TLSConfig() *tls.Config { return f.tlsConfig(f.settings.Load()) }

// Enter counts a connection of a client. It returns false when there are too many; else
// Leave has to follow.
func (f *Front) Enter() bool {
	n := f.open.Add(1)
	if limit := f.settings.Load().MaxConnections; limit > 0 && n > int64(limit) {
		f.open.Add(-1)
		f.Count(Refused)
		return false
	}
	f.history.connected(n)
	f.Count(Opened)
	return true
}

// Leave counts its end.
func (f *Front) Leave() {
	f.open.Add(-1)
	f.Count(Closed)
}

// CountUndecodable counts and logs a message that a client gets as it is stored because it
// cannot be made plain.
func (f *Front) CountUndecodable(err error) {
	f.Count(Undecodable)
	var missing *message.CodecError
	f.options.Log.Error(
		"Message cannot be made plain and is delivered as it is stored", "error", err.Error(), "codecMissing",
		errors.As(err, &missing),
	)
}

// EngineFailed logs a fault of an engine, which costs the saving and nothing else.
func (f *Front) EngineFailed(err error) {
	f.options.Log.Error("Engine failed, messages stay as they are", "error", err.Error())
}
