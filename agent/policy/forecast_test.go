// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math"
	"testing"

	"github.com/lighterage/lighterage/agent/policy"
)

func TestForecast(t *testing.T) {
	stored := policy.Effect{Wire: 1}
	half := policy.Effect{Wire: 0.5, Compress: 1 / 200e6, Inflate: 1 / 500e6}
	s := policy.Setting{
		Objective: policy.Elapsed, Prices: policy.Prices{CPUHour: 3.6, NetworkGiB: 1 << 30}, Cores: 1, PeerCores: 1,
		Link: 10e6,
	}
	slow, packed := s.Forecast(stored), s.Forecast(half)
	if slow.Elapsed < 1/10e6 || slow.Elapsed > 1.05/10e6 || slow.Value != slow.Elapsed {
		t.Errorf("a slow link is the bottleneck of stored data: %+v", slow)
	}
	if packed.Elapsed < 0.5/10e6 || packed.Elapsed > 0.55/10e6 {
		t.Errorf("and of half of them: %+v", packed)
	}
	// One second of CPU time costs 0.001, a byte on the wire 1.
	if got, want := packed.Money, 0.001*packed.CPU+0.5; math.Abs(got-want) > 1e-12 {
		t.Errorf("money %v, want %v", got, want)
	}
	if packed.CPU < half.Compress+half.Inflate {
		t.Errorf("CPU time %v is less than that of the engines", packed.CPU)
	}
	s.Link = math.NaN()
	if fast, packed := s.Forecast(stored), s.Forecast(half); fast.Elapsed >= packed.Elapsed ||
		packed.Elapsed < half.Compress {
		t.Errorf("without a network that bounds it compressing is the bottleneck: %+v, %+v", fast, packed)
	}
	one := s.Forecast(half).Elapsed
	s.Cores = 2
	if two := s.Forecast(half).Elapsed; two >= one {
		t.Errorf("two cores take %v, one %v", two, one)
	}
	for objective, better := range map[policy.Objective]policy.Effect{
		policy.CPU: stored, policy.Bytes: half, policy.Cost: half,
	} {
		s.Objective = objective
		other := stored
		if better == stored {
			other = half
		}
		if s.Forecast(better).Value >= s.Forecast(other).Value {
			t.Errorf("%s prefers %+v", objective, other)
		}
	}
	s.Objective, s.Prices = policy.Cost, policy.Prices{}
	if f := s.Forecast(half); f.Money != 0 || f.Value != f.Elapsed {
		t.Errorf("without prices cost is elapsed time: %+v", f)
	}
}
