// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxSamples and maxSampleBytes bound what is kept of recent messages.
	maxSamples, maxSampleBytes = 2048, 4 << 20
	// samplePause is between two samples once there are maxSamples: these are then of several minutes.
	samplePause = 100 * time.Millisecond
)

// samples are copies of recent messages. It is safe for concurrent use.
type samples struct {
	on atomic.Bool

	mu      sync.Mutex
	all     [][]byte // the oldest first
	bytes   int
	last    time.Time
	offered int
}

// offer keeps a copy of a message that is put here, if it is time for one. Who comes at the same time as another does
// not wait: the result is then false, and nothing is kept.
func (s *samples) offer(plain []byte) bool {
	if !s.on.Load() || len(plain) == 0 {
		return true
	}
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	s.offered++
	s.keepCopy(plain)
	return true
}

// take keeps a copy of a message that is put elsewhere, if it is time for one.
func (s *samples) take(plain []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on.Load() {
		s.keepCopy(plain)
	}
}

// offeredSince returns how many messages were offered since it was called before.
func (s *samples) offeredSince() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.offered
	s.offered = 0
	return n
}

func (s *samples) keepCopy(plain []byte) {
	if now := time.Now(); len(s.all) < maxSamples && s.bytes < maxSampleBytes || now.Sub(s.last) >= samplePause {
		s.last = now
		s.all, s.bytes = append(s.all, bytes.Clone(plain)), s.bytes+len(plain)
		for len(s.all) > maxSamples || s.bytes > maxSampleBytes {
			s.bytes -= len(s.all[0])
			s.all[0], s.all = nil, s.all[1:]
		}
	}
}

// recent returns the samples, the oldest first. They must not be changed.
func (s *samples) recent() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.all...)
}

// keep says whether samples are kept. Those that there are are forgotten when not.
func (s *samples) keep(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on.Store(on); !on {
		s.all, s.bytes = nil, 0
	}
}
