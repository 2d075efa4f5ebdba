// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lighterage/lighterage/agent/policy"
)

// attempt is one of a body of 64 KiB that shrinks to a share, at a rate in bytes a second.
func attempt(share, rate float64) policy.Attempt {
	const plain = 64 << 10
	return policy.Attempt{Plain: plain, Wire: share * plain, CPU: plain / rate, Elapsed: plain / rate}
}

const (
	// Seconds for a byte.
	loopback = 1e-10
	eightNs  = 8e-9
	tenMbit  = 800e-9
	// What TLS and sockets take of a byte.
	overTLS = 1.5e-9
)

// gigabit is a network without TLS.
var gigabit = policy.Carrier{Link: eightNs}

// TestClass: what is done with a class once it is known.
func TestClass(t *testing.T) {
	prices := policy.Prices{CPUHour: 0.04, NetworkGiB: 0.05}
	waits := attempt(0.2, 300e6)
	waits.Elapsed *= 100
	cost := func(p policy.Prices) policy.Serving { return policy.Serving{Objective: policy.Cost, Prices: p} }
	elapsed, cpu, bytes := policy.Serving{}, policy.Serving{Objective: policy.CPU}, policy.Serving{Objective: policy.Bytes}
	software, hardware, slight := attempt(0.2, 300e6), attempt(0.2, 3000e6), attempt(0.8, 300e6)
	fast, slow := policy.Carrier{Send: overTLS, Link: loopback}, policy.Carrier{Send: overTLS, Link: tenMbit}
	for name, c := range map[string]struct {
		serving   policy.Serving
		attempt   policy.Attempt
		carrier   policy.Carrier
		pipelined bool
		want      policy.Reason
	}{
		"elapsed, loopback":            {serving: elapsed, attempt: software, carrier: fast, want: policy.NetworkFaster},
		"elapsed, 10 Mbit/s":           {serving: elapsed, attempt: software, carrier: slow},
		"elapsed, accelerator and TLS": {serving: elapsed, attempt: attempt(0.2, 6000e6), carrier: fast},
		"elapsed, does not shrink":     {serving: elapsed, attempt: attempt(1, 300e6), carrier: slow},
		"elapsed, network not known":   {serving: elapsed, attempt: software, carrier: policy.Carrier{Send: overTLS}},
		"elapsed, processors are busy": {serving: elapsed, attempt: waits, carrier: gigabit, want: policy.CPUDearer},
		"elapsed, in one piece":        {serving: elapsed, attempt: slight, carrier: gigabit, want: policy.NetworkFaster},
		"elapsed, while parts travel":  {serving: elapsed, attempt: slight, carrier: gigabit, pipelined: true},
		"cost without a usable price": {serving: cost(policy.Prices{}), attempt: software, carrier: fast,
			want: policy.NetworkFaster},
		"CPU, software":    {serving: cpu, attempt: software, carrier: slow, want: policy.CPUDearer},
		"CPU, accelerator": {serving: cpu, attempt: hardware, carrier: fast},
		"bytes":            {serving: bytes, attempt: attempt(0.2, 1e6), carrier: fast},
		"cost":             {serving: cost(prices), attempt: software, carrier: fast},
		"cost, the network is free": {serving: cost(policy.Prices{CPUHour: 0.04}), attempt: software, carrier: slow,
			want: policy.CPUDearer},
		"cost, processors are free": {
			serving: cost(policy.Prices{NetworkGiB: 1}), attempt: attempt(0.8, 1e6), carrier: fast,
		},
		"cost, the network is not known": {
			serving: cost(policy.Prices{CPUHour: 1}), attempt: software, want: policy.CPUDearer,
		},
		"elapsed, fast disk": {serving: elapsed, attempt: software, carrier: policy.Carrier{Disk: loopback},
			want: policy.DiskFaster},
		"elapsed, fast disk, faster network": {serving: elapsed, attempt: software,
			carrier: policy.Carrier{Link: loopback, Disk: 10 * loopback}, want: policy.DiskFaster},
		"elapsed, fast disk, slower network": {serving: elapsed, attempt: software,
			carrier: policy.Carrier{Link: 10 * loopback, Disk: loopback}, want: policy.NetworkFaster},
		"elapsed, slow disk": {serving: elapsed, attempt: software, carrier: policy.Carrier{Link: loopback, Disk: tenMbit}},
		"elapsed, slow disk, readers inflate slowly": {serving: elapsed, attempt: software,
			carrier: policy.Carrier{Disk: eightNs, Inflate: eightNs}, want: policy.DiskFaster},
		"elapsed, readers inflate": {serving: elapsed, attempt: software,
			carrier: policy.Carrier{Disk: eightNs, Inflate: 0.5e-9}},
		"elapsed, the peer inflates": {serving: elapsed, attempt: software,
			carrier: policy.Carrier{Link: eightNs, Inflate: eightNs / 2}, want: policy.NetworkFaster},
		"elapsed, the peer inflates while parts travel": {serving: elapsed, attempt: software, pipelined: true,
			carrier: policy.Carrier{Link: eightNs, Inflate: eightNs / 2}},
		"CPU, readers inflate": {serving: cpu, attempt: hardware,
			carrier: policy.Carrier{Send: overTLS, Disk: tenMbit, Inflate: 2e-9}, want: policy.CPUDearer},
		"cost, nobody pays for the bytes": {serving: cost(prices), attempt: software,
			carrier: policy.Carrier{Send: overTLS, Disk: tenMbit, Unpriced: true}, want: policy.CPUDearer},
		"cost, readers inflate": {serving: cost(policy.Prices{CPUHour: 100, NetworkGiB: 0.05}), attempt: hardware,
			carrier: policy.Carrier{Send: overTLS, Link: tenMbit, Inflate: 20e-9}, want: policy.CPUDearer},
	} {
		var k policy.Class
		for range 100 {
			k.Observe(c.attempt)
			k.Look(c.serving, c.carrier, c.pipelined)
		}
		if got := k.Reason(); got != c.want {
			t.Errorf("%s: %q, want %q (%+v)", name, got, c.want, k.Weighed())
		}
	}
}

// TestClassIsNeverMuchDearer: whatever the figures are, and however they change, what is done settles at a choice that
// the other one does not beat by more than the margin, and then stays.
func TestClassIsNeverMuchDearer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	between := func(least, most float64) float64 { return least * math.Pow(most/least, random.Float64()) }
	for range 500 {
		var k policy.Class
		s := policy.Serving{
			Objective: []policy.Objective{policy.Elapsed, policy.CPU, policy.Cost, policy.Bytes}[random.IntN(4)],
			Prices:    policy.Prices{CPUHour: between(1e-3, 10), NetworkGiB: between(1e-4, 1)},
		}
		for range 4 {
			a := attempt(between(0.05, 1), between(5e6, 5e9))
			c := policy.Carrier{
				Send: between(1e-10, 1e-8), Link: between(1e-10, 1e-5), Disk: between(1e-10, 1e-6),
				Inflate: between(1e-10, 1e-8), Unpriced: random.IntN(2) == 0,
			}
			for range 800 { // what was before is forgotten
				k.Observe(a)
				k.Look(s, c, false)
			}
			settled := k.Reason()
			is, other := s.Weigh(a, c, false).Compressed, s.Weigh(a, c, false).AsIs
			if settled != "" {
				is, other = other, is
			}
			if is*0.89 > other {
				t.Fatalf("%+v: %q takes %g, the other choice %g (%+v, %+v)", s, settled, is, other, a, c)
			}
			for range 50 {
				k.Observe(a)
				if k.Look(s, c, false); k.Reason() != settled {
					t.Fatalf("%q became %q by the same figures", settled, k.Reason())
				}
			}
		}
	}
}

// TestClassBegins: a class is compressed until it is known what that takes.
func TestClassBegins(t *testing.T) {
	var k policy.Class
	fast := policy.Carrier{Link: loopback}
	k.Look(policy.Serving{}, fast, false)
	for i := range 15 {
		k.Observe(attempt(0.2, 300e6))
		k.Look(policy.Serving{}, fast, false)
		if k.Reason() != "" || k.Weighed() != (policy.Weighed{}) {
			t.Fatalf("after %d attempts: %q", i+1, k.Reason())
		}
	}
}

// TestClassStays: what is as good, or better once, changes nothing; what is better for long does, in both directions.
func TestClassStays(t *testing.T) {
	var k policy.Class
	look := func(link float64, times int) policy.Reason {
		for range times {
			k.Look(policy.Serving{}, policy.Carrier{Link: link}, false)
		}
		return k.Reason()
	}
	for range 16 {
		k.Observe(attempt(0.2, 300e6))
	}
	// Compressing pays from 1/300e6 = 0.8 link on: at 4.17 ns for a byte.
	if got := look(4.0e-9, 50); got != "" {
		t.Errorf("4 %% worse than as it is: %q", got)
	}
	if look(1e-9, 1); look(10e-9, 1) != "" || look(1e-9, 1) != "" {
		t.Error("single looks change it")
	}
	if got := look(1e-9, 1); got != policy.NetworkFaster {
		t.Errorf("a network that stays fast: %q", got)
	}
	if got := look(4.3e-9, 50); got != policy.NetworkFaster {
		t.Errorf("3 %% better than as it is: %q", got)
	}
	if got := look(10e-9, 2); got != "" {
		t.Errorf("a network that stays slow: %q", got)
	}
}

// TestClassForgets: attempts of long ago do not count.
func TestClassForgets(t *testing.T) {
	var k policy.Class
	for range 1000 {
		k.Observe(attempt(0.9, 10e6))
	}
	for range 200 {
		k.Observe(attempt(0.1, 1000e6))
	}
	if r := k.Recent(); r.Wire > 0.11*r.Plain {
		t.Errorf("%+v", r)
	}
}

// TestClassIgnores: figures that make no sense.
func TestClassIgnores(t *testing.T) {
	var k policy.Class
	nan := math.NaN()
	for range 100 {
		for _, a := range []policy.Attempt{
			{}, {Plain: -1}, {Plain: nan}, {Plain: math.Inf(1)}, {Plain: 1, Wire: nan}, {Plain: 1, CPU: nan},
			{Plain: 1, CPU: -1}, {Plain: 1, Elapsed: nan},
		} {
			k.Observe(a)
		}
	}
	k.Look(policy.Serving{}, policy.Carrier{Link: loopback}, false)
	if k.Recent() != (policy.Attempt{}) || k.Reason() != "" {
		t.Errorf("%+v", k)
	}
}

// TestSendCost: the fixed part of a write is not counted for bytes; equal lengths and nonsense say nothing.
func TestSendCost(t *testing.T) {
	var c policy.SendCost
	usual := c.PerByte()
	for range 3000 {
		for _, n := range []float64{500, 3000, 20000, 100000} {
			c.Observe(n, 20e-6+n*overTLS)
		}
	}
	if got := c.PerByte(); got < 0.98*overTLS || got > 1.02*overTLS {
		t.Errorf("%g, want %g", got, overTLS)
	}
	for range 100000 {
		c.Observe(3000, 1e-3)
		c.Observe(math.NaN(), 1)
		c.Observe(1, math.Inf(1))
		c.Observe(0, 1)
	}
	if got := c.PerByte(); !(got >= 0.05e-9 && got <= 100e-9) {
		t.Errorf("of equal lengths: %g", got)
	}
	if usual < 0.5e-9 || usual > 2e-9 {
		t.Errorf("before anything was seen: %g", usual)
	}
}

// TestTypical: the median of most, whatever fewer than half say, within few figures.
func TestTypical(t *testing.T) {
	var m policy.Typical
	for i := range 7 {
		if m.Observe(eightNs); m.Value() != 0 {
			t.Fatalf("known after %d figures", i+1)
		}
	}
	for i := range 3000 {
		switch i % 5 {
		case 0:
			m.Observe(1e9)
		case 1:
			m.Observe(math.Inf(1))
		default:
			m.Observe(eightNs)
		}
		m.Observe(math.NaN())
	}
	if got := m.Value(); got < 0.7*eightNs || got > 1.5*eightNs {
		t.Errorf("with outliers %g, want %g", got, eightNs)
	}
	seen := 0
	for ; m.Value() < 0.9*tenMbit && seen < 100; seen++ {
		m.Observe(tenMbit)
	}
	if seen > 15 {
		t.Errorf("a network that became slower is seen after %d figures", seen)
	}
}
