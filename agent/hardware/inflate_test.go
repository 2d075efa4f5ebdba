// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"testing"
	"time"
)

func TestWorthwhile(t *testing.T) {
	cost := func(compressed int64, hardware, software int) inflateCost {
		return inflateCost{compressed, time.Duration(hardware), time.Duration(software)}
	}
	tests := []struct {
		name  string
		costs []inflateCost
		want  int64
	}{
		{"nothing measured", nil, NeverInflate},
		{"never", []inflateCost{cost(800, 9, 8), cost(400, 9, 4)}, NeverInflate},
		{"always", []inflateCost{cost(800, 2, 8), cost(400, 2, 4), cost(200, 2, 2)}, 200},
		{"from the middle on", []inflateCost{cost(800, 3, 8), cost(400, 3, 4), cost(200, 3, 2)}, 400},
		{"an outlier counts against it", []inflateCost{cost(800, 3, 8), cost(400, 5, 4), cost(200, 1, 2)}, 800},
		{"the longest alone against it", []inflateCost{cost(800, 9, 8), cost(400, 3, 4)}, NeverInflate},
	}
	for _, test := range tests {
		if got := worthwhile(test.costs); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

// TestSample: the proof rests on bytes that are the same everywhere and long enough.
func TestSample(t *testing.T) {
	a, b := sample(sampleSize), sample(sampleSize)
	if len(a) != sampleSize || string(a) != string(b) || string(sample(500)) != string(a[:500]) {
		t.Error("the sample is not the same every time")
	}
}
