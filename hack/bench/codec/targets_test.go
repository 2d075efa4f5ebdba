// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestTargetLines(t *testing.T) {
	for _, c := range []struct {
		target target
		want   string
	}{
		{target{name: "speed", measured: 0.951, bound: 0.95, digits: 2}, "target speed 0.95 >=0.95 ok"},
		{target{name: "speed", measured: 0.946, bound: 0.95, digits: 2}, "target speed 0.95 >=0.95 ok"},
		{target{name: "speed", measured: 0.944, bound: 0.95, digits: 2}, "target speed 0.94 >=0.95 miss"},
		{target{name: "ratio", measured: 1.004, bound: 1, digits: 2, atMost: true}, "target ratio 1.00 <=1.00 ok"},
		{target{name: "ratio", measured: 1.006, bound: 1, digits: 2, atMost: true}, "target ratio 1.01 <=1.00 miss"},
		{
			target{name: "cost", measured: 0.0204, bound: 0.02, digits: 1, percent: true, atMost: true},
			"target cost 2.0% <=2.0% ok",
		},
		{
			target{name: "cost", measured: 0.0206, bound: 0.02, digits: 1, percent: true, atMost: true},
			"target cost 2.1% <=2.0% miss",
		},
		{target{name: "allocs", measured: 1, atMost: true}, "target allocs 1 <=0 miss"},
	} {
		if got := c.target.line(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	low, high := spread{}, spread{high: true}
	for corpus, value := range map[string]float64{"a": 1, "b": 4, "c": 2} {
		low.add(corpus, value)
		high.add(corpus, value)
	}
	if got := low.fill(target{digits: 1}); got.worst != "1.0 on a" || got.figure(got.measured) != "2.0" {
		t.Errorf("got %+v", got)
	}
	if got := high.fill(target{digits: 1}); got.worst != "4.0 on b" {
		t.Errorf("got %+v", got)
	}
}

func TestCoresTarget(t *testing.T) {
	r := &results{
		cores: []coresResult{
			{name: "engine", corpus: "xml", one: result{wall: []float64{8}}, all: result{wall: []float64{2}}},
		},
	}
	if got, ok := coresTarget(r, 4); !ok || got.bound != 3.7 || got.measured != 4 {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := coresTarget(r, 1); ok {
		t.Error("one core is compared with itself")
	}
}
