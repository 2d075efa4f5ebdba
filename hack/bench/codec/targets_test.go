// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
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

// named is an engine of a name.
type named struct{ codec.Engine }

func (named) Name() string    { return "engine" }
func (named) Codec() codec.ID { return codec.Deflate }

// TestRandomDecision: what a block costs without what it costs in mode Never may be below 0 in a round, and is judged
// by its interval all the same.
func TestRandomDecision(t *testing.T) {
	for want, auto := range map[string][]float64{
		"ok":   {2.1, 1.9, 2.1, 2.1, 2}, // the second round is below Never's
		"miss": {4.1, 1.9, 4.1, 2.1, 2},
	} {
		cell := func(cpu ...float64) result { return result{corpus: "random", cpu: cpu} }
		r := &results{decisions: decisionResults{modes: []modeResult{{
			setting: setting{engine: named{}}, never: cell(2, 2, 2, 2, 2), auto: cell(auto...), always: cell(9, 9, 9, 9, 9),
		}}}}
		targets := (&bench{}).decisionTargets(r)
		got := targets[len(targets)-1]
		if got.Name != "random-decision-deflate" || got.Verdict() != want || !(got.Measured.Low < got.Measured.High) {
			t.Errorf("%s from %v to %v, want %s", got.Line(), got.Measured.Low, got.Measured.High, want)
		}
	}
}
