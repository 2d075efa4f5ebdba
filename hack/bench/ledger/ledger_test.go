// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

func TestFit(t *testing.T) {
	var samples []sample
	for _, gib := range []float64{1, 2, 4, 8} {
		samples = append(samples, sample{gib: gib, system: 0.5 + 3*gib, booked: 2})
	}
	if got := fit(samples, func(s sample) float64 { return s.system }); math.Abs(got.slope-3) > 1e-9 ||
		math.Abs(got.base-0.5) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := fit(samples, func(s sample) float64 { return s.booked }); math.Abs(got.slope) > 1e-9 {
		t.Errorf("what does not grow: %+v", got)
	}
	if got := fit(samples[:1], func(s sample) float64 { return s.system }); got != (line{}) {
		t.Errorf("of one run: %+v", got)
	}
}

func TestGrown(t *testing.T) {
	before := map[harness.PID]time.Duration{1: time.Second, 2: 5 * time.Second, 3: time.Second}
	after := map[harness.PID]time.Duration{1: 3 * time.Second, 2: time.Second, 4: time.Second} // 2 is another one
	if got := grown(before, after); got != 3 {
		t.Errorf("%v s", got)
	}
}

// TestTargets: too little and too much are both misses, and so is what one round says.
func TestTargets(t *testing.T) {
	system := []float64{1, 1, 1, 1}
	for name, c := range map[string]struct {
		booked, reports []float64
		want            [3]bool
	}{
		"explained":  {[]float64{0.97, 0.98, 1.01, 0.99}, []float64{0.001, 0.009}, [3]bool{true, true, true}},
		"too little": {[]float64{0.7, 0.71, 0.7, 0.69}, []float64{0.02, 0.001}, [3]bool{false, true, false}},
		"too much":   {[]float64{1.3, 1.31, 1.3, 1.29}, nil, [3]bool{true, false, true}},
		"one round":  {[]float64{1}, nil, [3]bool{false, false, true}},
	} {
		for i, target := range targets(c.booked, system, c.reports) {
			if target.OK() != c.want[i] {
				t.Errorf("%s: %s", name, target.Line())
			}
		}
	}
}

func TestCostOfReport(t *testing.T) {
	cost, err := costOfReport(t.Context())
	if err != nil || cost <= 0 || cost > 50*time.Millisecond {
		t.Errorf("%v, %v", cost, err)
	}
}

// TestReport: each cell has a row with its share and a pair of bars.
func TestReport(t *testing.T) {
	of := func(system, booked float64) round {
		return round{system: line{slope: system}, booked: line{slope: booked}, push: line{slope: booked}}
	}
	o := &options{sizes: []int64{gib, 2 * gib}}
	report := o.report([]cell{
		{codec: "none", record: 80, rounds: []round{of(1, 0.9), of(1, 0.9), of(1, 0.9)}},
		{codec: "zstd", record: 4096, rounds: []round{of(2, 2)}},
	})
	sums := report.Data.(map[string]any)["Sums"].(string)
	if !strings.Contains(sums, "90% (90% to 90%)") || !strings.Contains(sums, "| 100% |") {
		t.Errorf("shares: %s", sums)
	}
	for _, want := range []string{"none, records of 80 B", "zstd, records of 4096 B", "booked"} {
		if !strings.Contains(report.Drawing, want) {
			t.Errorf("no %q in the drawing", want)
		}
	}
}

// TestSettings: agents accept what the cells ask for.
func TestSettings(t *testing.T) {
	for _, codec := range []string{"none", "deflate", "zstd"} {
		if _, err := compression.Read(settings(codec)); err != nil {
			t.Errorf("%s: %v", codec, err)
		}
	}
}
