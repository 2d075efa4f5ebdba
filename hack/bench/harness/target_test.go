// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"strings"
	"testing"
)

func TestTargetLines(t *testing.T) {
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Name: "speed", Measured: Exactly(0.946), Bound: 0.95, AtLeast: true, Digits: 2}, "speed 0.95 >=0.95 ok"},
		{Target{Name: "speed", Measured: Exactly(0.944), Bound: 0.95, AtLeast: true, Digits: 2}, "speed 0.94 >=0.95 miss"},
		{Target{Name: "ratio", Measured: Exactly(1.004), Bound: 1, Digits: 2}, "ratio 1.00 <=1.00 ok"},
		{Target{Name: "ratio", Measured: Exactly(1.006), Bound: 1, Digits: 2}, "ratio 1.01 <=1.00 miss"},
		{Target{Name: "cost", Measured: Exactly(0.0204), Bound: 0.02, Digits: 1, Percent: true}, "cost 2.0% <=2.0% ok"},
		{Target{Name: "cost", Measured: Exactly(0.0206), Bound: 0.02, Digits: 1, Percent: true}, "cost 2.1% <=2.0% miss"},
		{Target{Name: "allocs", Measured: Exactly(1)}, "allocs 1 <=0 miss"},
		{Target{Name: "restart", Measured: Exactly(math.NaN()), Bound: 60}, "restart - <=60 miss"},
		// The whole interval passes, or the bound is missed.
		{Target{Name: "rate", Measured: Estimate{1.3, 1.2, 1.4}, Bound: 1.2, AtLeast: true, Digits: 1}, "rate 1.3 >=1.2 ok"},
		{Target{Name: "x", Measured: Estimate{1.3, 1.1, 1.4}, Bound: 1.2, AtLeast: true, Digits: 1}, "x 1.3 >=1.2 miss"},
		{Target{Name: "time", Measured: Estimate{0.7, 0.6, 0.8}, Bound: 0.8, Digits: 1}, "time 0.7 <=0.8 ok"},
		{Target{Name: "time", Measured: Estimate{0.7, 0.6, 0.9}, Bound: 0.8, Digits: 1}, "time 0.7 <=0.8 miss"},
		{Target{Name: "time", Measured: Ratio([]float64{1}, []float64{2}), Bound: 0.8, Digits: 1}, "time 0.5 <=0.8 miss"},
	} {
		if got := c.target.Line(); got != "target "+c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestTargetTable(t *testing.T) {
	all := []Target{
		{Name: "a", What: "x", Measured: Estimate{1, 0.9, 1.1}, Bound: 2, Digits: 1},
		{Name: "b", What: "y", Measured: Exactly(3), Bound: 2},
	}
	want := "| target | what | measured | 95 % interval | bound |  |\n|---|---|---:|---:|---|---|\n" +
		"| a | x | 1.0 | 0.9 to 1.1 | <=2.0 | ok |\n| b | y | 3 |  | <=2 | miss |\n"
	if got := TargetTable(all); got != want {
		t.Errorf("got\n%s", got)
	}
	all[1].Note = "on z"
	if got := TargetTable(all); !strings.Contains(got, "| miss | on z |") {
		t.Errorf("got\n%s", got)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
