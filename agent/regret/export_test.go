// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package regret

// Step is one look of Run.
func (s *Sampler) Step() bool { return s.step() }

// OnlyPressure leaves nothing of what the process is seen to wait for.
func (s *Sampler) OnlyPressure(pressed func() bool) { s.pressure = pressed }

// Spent is the CPU time of sampling in nanoseconds.
func (s *Sampler) Spent() int64 { return s.spent.Load() }

// Share is what it is to be at most.
const Share = share

// Waiting reports whether a unit waits to be measured.
func (s *Sampler) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting != nil
}

// Throttled is readThrottled.
var Throttled = readThrottled

// PressureOf looks twice at a counter of throttling, with a change in between.
func PressureOf(file string, change func()) bool {
	p := newPressure()
	p.files = []string{file}
	p.look()
	change()
	p.sample[0].Name = "/none"
	p.all, p.late = 0, 0
	return p.look()
}
