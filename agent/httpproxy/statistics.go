// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/regret"
	"github.com/lighterage/lighterage/agent/transport"
)

// Statistics are what a server has done since the last reset.
type Statistics struct {
	// Active connections, which are a state, and the most that there were.
	Active, HighWater int64
	// Refused connections, because of Limits.MaxConnections.
	Refused int64
	// Reused counts requests on a connection that had served one before.
	Reused int64
	// TimedOut counts requests that the backend did not answer in time, and connections
	// of clients that sent or took nothing in time.
	TimedOut int64
	// URLErrors counts responses 404 and 410.
	URLErrors int64
	// Hardware, Software and Uncompressed are numbers of responses by how they were
	// sent, ByCoding by their coding; the sums are the same.
	Hardware, Software, Uncompressed int64
	ByCoding                         map[negotiate.Coding]int64
	// CompressedPlainBytes and CompressedBytes are of the bodies that were compressed,
	// before and after.
	CompressedPlainBytes, CompressedBytes int64
	// Recent is of the last window in which bodies were compressed.
	Recent Recent
	// Meter has a block for each body; those of several parts count when they end.
	Meter meter.Snapshot
	// Wire is of the connections of clients and to backends.
	Wire transport.Counted
	// Since is when counting began.
	Since time.Time
}

// Recent is of the bodies that were compressed in some time.
type Recent struct {
	Bodies, PlainBytes, Bytes int64
	// CPU time, that for bodies that did not shrink included.
	CPU time.Duration
}

// window is how long Recent is taken over, at least.
const window = 10 * time.Second

// outcome is what became of one response. The zero value is that of one without a body.
type outcome struct {
	coding negotiate.Coding
	// engine compressed the body, or an attempt of it did not make the body shorter.
	engine string
	meter  meter.Outcome
	body   bool
	// elapsed is how long compressing took by the clock.
	elapsed time.Duration
	// drawn is a sample of the body; nil for nearly all.
	drawn *regret.Unit
}

// stored is the outcome of a body of a length that is sent as it is.
func stored(n int, reason policy.Reason) outcome {
	return outcome{body: true, meter: meter.Outcome{Path: meter.Stored, Reason: reason, PlainBytes: n, WireBytes: n}}
}

// statistics count. The numbers of connections are counted for themselves, since there
// are many more of those events than of others.
type statistics struct {
	active, highWater, refused, reused, timedOut, urlErrors atomic.Int64
	// begun and ended are numbers of requests. They are not reset.
	begun, ended atomic.Uint64

	mu            sync.Mutex
	byPath        [3]int64
	byCoding      map[negotiate.Coding]int64
	plain, packed int64
	meter         *meter.Meter
	since         time.Time
	wireBase      transport.Counted
	// windowBegun is when sums were last; recent is of the last window in which bodies were compressed.
	windowBegun  time.Time
	last, recent Recent
}

// sums are of all since the last reset.
func (s *statistics) sums() Recent {
	return Recent{s.byPath[meter.Hardware] + s.byPath[meter.Software], s.plain, s.packed, s.meter.Snapshot().CPU}
}

// tick ends the window if it has lasted long enough. The caller holds mu.
func (s *statistics) tick(now time.Time) {
	if now.Sub(s.windowBegun) < window {
		return
	}
	sums := s.sums()
	if sums.Bodies > s.last.Bodies {
		s.recent = Recent{
			sums.Bodies - s.last.Bodies, sums.PlainBytes - s.last.PlainBytes, sums.Bytes - s.last.Bytes, sums.CPU - s.last.CPU,
		}
	}
	s.windowBegun, s.last = now, sums
}

// opened notes a new connection and returns how many there are.
func (s *statistics) opened() int64 {
	n := s.active.Add(1)
	for {
		high := s.highWater.Load()
		if n <= high || s.highWater.CompareAndSwap(high, n) {
			return n
		}
	}
}

func (s *statistics) closed() { s.active.Add(-1) }

// add counts a response.
func (s *statistics) add(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick(time.Now())
	s.byCoding[o.coding]++
	s.byPath[min(int(o.meter.Path), len(s.byPath)-1)]++
	if o.meter.Path != meter.Stored {
		s.plain += int64(o.meter.PlainBytes)
		s.packed += int64(o.meter.WireBytes)
	}
	if o.body {
		s.meter.Add(o.meter)
	}
}

// reset begins again.
func (s *statistics) reset(now time.Time) {
	s.highWater.Store(s.active.Load())
	for _, n := range []*atomic.Int64{&s.refused, &s.reused, &s.timedOut, &s.urlErrors} {
		n.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPath = [3]int64{}
	s.byCoding = make(map[negotiate.Coding]int64)
	s.plain, s.packed, s.meter, s.since = 0, 0, new(meter.Meter), now
	s.windowBegun, s.last, s.recent = now, Recent{}, Recent{}
}

// Statistics returns what was counted since the last reset. It is the caller's to keep.
func (s *Server) Statistics() Statistics {
	c := &s.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick(time.Now())
	out := Statistics{
		Active: c.active.Load(), HighWater: c.highWater.Load(), Refused: c.refused.Load(), Reused: c.reused.Load(),
		TimedOut: c.timedOut.Load(), URLErrors: c.urlErrors.Load(),
		Hardware: c.byPath[meter.Hardware], Software: c.byPath[meter.Software], Uncompressed: c.byPath[meter.Stored],
		ByCoding:             make(map[negotiate.Coding]int64, len(c.byCoding)),
		CompressedPlainBytes: c.plain, CompressedBytes: c.packed, Recent: c.recent, Meter: c.meter.Snapshot(),
		Wire: s.wire.Counted().Minus(c.wireBase), Since: c.since,
	}
	for k, n := range c.byCoding {
		out.ByCoding[k] = n
	}
	return out
}

// Passed is a number that changes when a request begins or ends, and with the bytes that pass while one is under way.
// What health checks send is not in it otherwise.
func (s *Server) Passed() uint64 {
	ended := s.stats.ended.Load()
	begun := s.stats.begun.Load()
	if begun == ended {
		return begun + ended
	}
	return begun + ended + uint64(max(s.wire.Bytes(), 0))
}

// ResetStatistics begins to count again.
func (s *Server) ResetStatistics(now time.Time) {
	s.stats.reset(now)
	s.classes.Reset()
	s.stats.mu.Lock()
	s.stats.wireBase = s.wire.Counted()
	s.stats.mu.Unlock()
}

// engineAndReason is what the header lighterage-compression says.
func engineAndReason(engine string, reason policy.Reason) string {
	if engine == "" {
		engine = "none"
	}
	return engine + ";" + string(reason)
}
