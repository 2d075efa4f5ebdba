// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// TestWeek: a simulated week with prices, windows and deadlines costs hardly more than the optimum, and much less than
// without a plan.
func TestWeek(t *testing.T) {
	w, err := week(weekJobs, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Runs < 100 {
		t.Fatalf("%+v", w)
	}
	targets := w.targets()
	harness.PrintTargets(targets)
	for _, target := range targets {
		if !target.OK() {
			t.Errorf("%s is missed: %+v", target.Name, w)
		}
	}
	if w.Soonest < 1.2*w.Optimum {
		t.Errorf("there is nothing to gain: %+v", w)
	}
	if !strings.Contains(w.table(), "optimum") {
		t.Error(w.table())
	}
}
