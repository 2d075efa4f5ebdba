// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
}

func TestGeometricMean(t *testing.T) {
	if got := GeometricMean([]float64{0.5, 2}); math.Abs(got-1) > 1e-12 {
		t.Errorf("half and twice make %v", got)
	}
}

func near(t *testing.T, got, want Estimate) {
	t.Helper()
	for _, pair := range [][2]float64{{got.Value, want.Value}, {got.Low, want.Low}, {got.High, want.High}} {
		if math.Abs(pair[0]-pair[1]) > 2e-3*want.Value && pair[0] != pair[1] {
			t.Errorf("got %+v, want %+v", got, want)
			return
		}
	}
}

// TestRatio pairs rounds: a machine that becomes slower for both changes nothing, and what differs from round to round
// makes the interval.
func TestRatio(t *testing.T) {
	near(t, Ratio([]float64{2, 10, 20}, []float64{1, 5, 10, 7}), Estimate{2, 2, 2})
	// Logarithms of -0.1, 0 and 0.1 deviate by 0.1: 4.303 times that by the root of 3 are 0.2484.
	ours := []float64{math.Exp(-0.1), math.Exp(0.1), 1}
	near(t, Ratio(ours, []float64{1, 1, 1}), Estimate{1, math.Exp(-0.2484), math.Exp(0.2484)})
	near(t, Ratio([]float64{3}, []float64{2}), Estimate{1.5, 0, math.Inf(1)})
	near(t, Estimate{2, 1, 4}.Inverse(), Estimate{0.5, 0.25, 1})
	near(t, Estimate{2, 1, 4}.Times(3), Estimate{6, 3, 12})
}

// TestShare has a difference below 0, which has no logarithm.
func TestShare(t *testing.T) {
	// -0.1, 0.1 and 0.3 have the mean 0.1 and deviate by 0.2: 4.303 times that by the root of 3 are 0.4969.
	near(t, Share([]float64{-0.2, 0.2, 0.6}, []float64{2, 2, 2}), Estimate{0.1, -0.3969, 0.5969})
}

func TestMeanRatio(t *testing.T) {
	up, down := math.Exp(0.3), math.Exp(-0.3)
	near(t, MeanRatio([]Estimate{{2, 2 * down, 2 * up}, {0.5, 0.5 * down, 0.5 * up}}),
		Estimate{1, math.Exp(-0.3 / math.Sqrt2), math.Exp(0.3 / math.Sqrt2)})
}

func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 10: 2.228, 11: 2.201, 30: 2.042, 1000: 1.962} {
		if got := student(freedom); math.Abs(got-want) > 5e-3 {
			t.Errorf("with %d degrees of freedom %v, want %v", freedom, got, want)
		}
	}
}
