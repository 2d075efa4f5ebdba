// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "math"

// Typical follows the median of figures above 0 that arrive one by one. Half of them may be wrong by any factor and
// move it no further than others do: what clients make of their connections is theirs to choose. The zero value has
// seen nothing.
type Typical struct {
	seen int
	log  float64
	step float64
	up   bool
}

const (
	// A figure moves the median by this share, and by twice as much with each one more on the same side in a row.
	leastStep, mostStep = 0.05, 0.8
	// Figures are within these, in seconds for a byte: 1 TB/s and 100 bytes a second.
	leastTypical, mostTypical = 1e-12, 1e-2
	// The median is known after so many.
	typicalSeen = 8
)

// Observe takes in a figure.
func (t *Typical) Observe(f float64) {
	if math.IsNaN(f) {
		return
	}
	log := math.Log(sound(f, leastTypical, mostTypical))
	if t.seen = min(t.seen+1, typicalSeen); t.seen == 1 {
		t.log, t.step = log, leastStep
		return
	}
	if log == t.log {
		return
	}
	up := log > t.log
	if t.step = min(2*t.step, mostStep); up != t.up {
		t.step = leastStep
	}
	t.up = up
	if up {
		t.log = min(t.log+t.step, log)
	} else {
		t.log = max(t.log-t.step, log)
	}
}

// Value is the median; 0: not known yet.
func (t *Typical) Value() float64 {
	if t.seen < typicalSeen {
		return 0
	}
	return math.Exp(t.log)
}
