// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"sync"
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// spent are CPU times in nanoseconds: of the process, and what is part of it.
type spent struct{ process, compress, read, accelerator uint64 }

// part returns the share of weight in all; 0 of 0 is nothing.
func (s spent) part(weight, all uint64) spent {
	if all == 0 {
		return spent{}
	}
	of := func(n uint64) uint64 { return uint64(float64(n) * (float64(weight) / float64(all))) }
	return spent{of(s.process), of(s.compress), of(s.read), of(s.accelerator)}
}

func (s spent) less(o spent) spent {
	return spent{s.process - o.process, s.compress - o.compress, s.read - o.read, s.accelerator - o.accelerator}
}

func (s spent) plus(o spent) spent {
	return spent{s.process + o.process, s.compress + o.compress, s.read + o.read, s.accelerator + o.accelerator}
}

// shares divides what the process spends between receivers, by the bytes that each was sent since it was last divided.
// What is booked for a receiver never falls, and all of it together is what was spent, but for rounding.
type shares struct {
	compress, read atomic.Uint64

	mu      sync.Mutex
	places  map[*Place]struct{}
	divided spent
}

// share is a receiver's.
type share struct {
	booked spent
	bytes  uint64 // sent since the last division
}

func (s *shares) init() { s.places = make(map[*Place]struct{}) }

func (s *shares) join(p *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[p] = struct{}{}
}

func (s *shares) leave(p *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divide()
	delete(s.places, p)
}

// sent notes that a receiver was sent so many bytes of files.
func (s *shares) sent(p *Place, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.share.bytes += uint64(bytes)
}

// booked returns what is a receiver's by now.
func (s *shares) booked(p *Place) spent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.places[p]; there {
		s.divide()
	}
	return p.share.booked
}

// divide books what was spent since it was called last; to all alike where nobody was sent anything. The caller holds
// the lock.
func (s *shares) divide() {
	if len(s.places) == 0 {
		return
	}
	// The parts are read before the whole.
	now := spent{compress: s.compress.Load(), read: s.read.Load(), accelerator: uint64(hardware.CallTime())}
	now.process = max(protocol.ProcessNanos(), s.divided.process)
	delta := now.less(s.divided)
	s.divided = now
	var all uint64
	for p := range s.places {
		all += p.share.bytes
	}
	for p := range s.places {
		weight, of := p.share.bytes, all
		if all == 0 {
			weight, of = 1, uint64(len(s.places))
		}
		p.share.booked = p.share.booked.plus(delta.part(weight, of))
		p.share.bytes = 0
	}
}
