// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package regret

import "runtime/metrics"

// Step is one look of Run.
func (s *Sampler) Step() bool { return s.step() }

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

// PressureOf asks twice whether there is pressure, by a counter of throttling alone, with a change in between.
func PressureOf(file string, change func()) bool {
	p := pressure{files: []string{file}, sample: []metrics.Sample{{Name: "/none"}}}
	p.Pressed()
	change()
	return p.Pressed()
}

// LateOf is which share of waits is late, by the lower bounds of buckets in seconds.
func LateOf(counts []uint64, bounds []float64) float64 {
	all, late := waits(&metrics.Float64Histogram{Counts: counts, Buckets: bounds})
	return float64(late) / float64(all)
}
