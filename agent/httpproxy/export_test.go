// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"github.com/lighterage/lighterage/agent/regret"
	"github.com/lighterage/lighterage/agent/sampling"
)

// SampledOn has what choices lose measured on a machine by servers that are made from then on.
func SampledOn(m regret.Machine) { sampledOn = m }

// Exhaust takes all the memory that there is for bodies until the function that it returns is called.
func (s *Server) Exhaust() (release func()) {
	s.buffers.used.Add(maxBuffered)
	return func() { s.buffers.used.Add(-maxBuffered) }
}

// Collect begins to collect a sample; what it returns ends that, and says how many bytes bodies on their way still hold
// for it.
func (s *Server) Collect(r sampling.Request) (stop func() ([]sampling.Item, sampling.Seen, int64), err error) {
	c, err := s.collect(r)
	if err != nil {
		return nil, err
	}
	return func() ([]sampling.Item, sampling.Seen, int64) {
		items, seen := s.collected(c)
		return items, seen, c.held.Load()
	}, nil
}

// Held is how many bytes bodies on their way hold for the sample that is being taken.
func (s *Server) Held() int64 { return s.collecting.Load().held.Load() }
