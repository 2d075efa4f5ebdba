// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

func TestSpread(t *testing.T) {
	low, high := spread{}, spread{high: true}
	for corpus, value := range map[string]float64{"a": 1, "b": 4, "c": 2} {
		low.add(corpus, harness.Exactly(value))
		high.add(corpus, harness.Exactly(value))
	}
	if got := low.mean(harness.Target{Digits: 1}); got.Note != "1.0 on a" || got.Figure(got.Measured.Value) != "2.0" {
		t.Errorf("got %+v", got)
	}
	if got := high.theWorst(harness.Target{Digits: 1}); got.Note != "4.0 on b" || got.Measured.Value != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestCoresTarget(t *testing.T) {
	r := &results{
		cores: []coresResult{
			{name: "engine", corpus: "xml", one: result{wall: []float64{8}}, all: result{wall: []float64{2}}},
		},
	}
	if got, ok := coresTarget(r, 4); !ok || got.Bound != 3.7 || got.Measured.Value != 4 {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := coresTarget(r, 1); ok {
		t.Error("one core is compared with itself")
	}
}
