// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// first has a controller compress the first block, and says what it took, as a share of what was expected of its way.
func first(t *testing.T, c *policy.Controller, slower float64) policy.Option {
	t.Helper()
	b := policy.Block{Size: 1 << 20, Predicted: 220 << 10, Software: true}
	choice := c.Choose(b)
	if choice.Stored() {
		t.Fatalf("the first block: %+v", choice)
	}
	c.Observe(
		policy.Outcome{
			Option: choice.Option, Size: b.Size, Predicted: b.Predicted, Wire: 230 << 10, CPU: slower * float64(b.Size) / 484e6,
		},
	)
	return choice.Option
}

// TestYoungConnection: a window of TCP that is small at first makes no slow receiver of a slow network, and where bytes
// wait on the way the network is known to be slow.
func TestYoungConnection(t *testing.T) {
	for delay, level := range map[float64]codec.Level{0.0005: codec.Fast, 0.06: codec.High} {
		c := controller(policy.Elapsed, prices, 1)
		first(t, c, 1)
		// As seen over 10 Mbit/s.
		c.Window(policy.Window{
			Elapsed: 0.18, Streams: 1, Plain: 3 << 20, Wire: 0.74e6, CPU: 0.021, Compress: 0.017, Worked: 0.019,
			WorkedCPU: 0.019, Writing: 0.16,
			Carried: true, Delivered: 0.22e6, Busy: 0.18, PeerFull: 0.12, Queueing: delay,
		})
		if next := c.Choose(policy.Block{Size: 1 << 20, Predicted: 220 << 10, Software: true}); next.Stored() ||
			next.Level != level {
			t.Errorf("bytes wait %g s on the way, and the next block goes like this: %+v", delay, next)
		}
	}
}

// TestColdBlock: what an option took for its first block alone does not end it, what it takes for more does.
func TestColdBlock(t *testing.T) {
	o := policy.Option{Codec: codec.Deflate, Class: codec.Software, Level: codec.Fast}
	c := policy.NewController(policy.ControllerOptions{
		Objective: policy.CPU, Cores: 1, Ways: []policy.Way{{Option: o, CompressRate: 484e6, InflateRate: 848e6, Ratio: 3}},
	})
	first(t, c, 8)
	if next := c.Choose(policy.Block{Size: 1 << 20, Predicted: 220 << 10, Software: true}); next.Stored() {
		t.Errorf("%+v after one slow block", next)
	}
	for range 8 {
		c.Observe(
			policy.Outcome{Option: o, Size: 1 << 20, Predicted: 220 << 10, Wire: 230 << 10, CPU: 8 * float64(1<<20) / 484e6},
		)
	}
	if next := c.Choose(policy.Block{Size: 1 << 20, Predicted: 220 << 10, Software: true}); !next.Stored() {
		t.Errorf("%+v though it was slow again and again", next)
	}
}

// TestFirstGuess: what a window or two make of a network that is fast, while connections are young, does not outlast
// windows that carry far more. What several windows make of one that is slow does.
func TestFirstGuess(t *testing.T) {
	young := policy.Window{
		Elapsed: 0.0135, Streams: 2, Plain: 1 << 20, Wire: 0.59e6, CPU: 0.016, Compress: 0.003, Worked: 0.0032,
		WorkedCPU: 0.0032, Writing: 0.0027,
		Carried: true, Delivered: 0.14e6, Busy: 0.024,
	}
	faster := policy.Window{
		Elapsed: 0.034, Streams: 2, Plain: 3 << 20, Wire: 1.71e6, CPU: 0.044, Compress: 0.042, Worked: 0.0425,
		WorkedCPU: 0.0425, Writing: 0.0067,
		Carried: true, Delivered: 1.7e6, Busy: 0.016,
	}
	b := policy.Block{Size: 1 << 20, Predicted: 540 << 10, Software: true}
	for windows, stored := range map[int]bool{1: true, 2: true, 8: false} {
		c := controller(policy.Elapsed, prices, 2)
		first(t, c, 1)
		for range windows {
			c.Window(young)
		}
		for range 2 {
			c.Window(faster)
		}
		if next := c.Choose(b); next.Stored() != stored {
			t.Errorf("after %d windows of a slow network and two of a faster one: %+v", windows, next)
		}
	}
}

// TestNothingCarried: blocks that shrink to nothing say nothing of what a network carries, so that none of them is sent
// as it is to find out.
func TestNothingCarried(t *testing.T) {
	c := controller(policy.Elapsed, prices, 1)
	b := policy.Block{Size: 1 << 20, Predicted: 100, Software: true}
	for range 64 {
		choice := c.Choose(b)
		if choice.Stored() {
			t.Fatalf("%+v", choice)
		}
		c.Observe(policy.Outcome{
			Option: choice.Option, Size: b.Size, Predicted: b.Predicted, Wire: 100, CPU: float64(b.Size) / 2.5e9,
		})
		// As seen over 10 Mbit/s: a sender that does little but compress.
		c.Window(policy.Window{
			Elapsed: 0.5e-3, Streams: 1, Plain: 1 << 20, Wire: 100, CPU: 0.47e-3, Compress: 0.42e-3, Worked: 0.46e-3,
			WorkedCPU: 0.46e-3, Carried: true, Delivered: 100, Busy: 0.1e-3,
		})
		c.Peer(policy.Peer{
			Elapsed: 0.5e-3, Streams: 1, Plain: 1 << 20, Wire: 100, CPU: 0.26e-3, Inflate: 0.2e-3, Inflated: 1 << 20,
			Busy: 0.3e-3,
		})
	}
}

// TestPeerLikeThisMachine: before the peer says anything of itself, a sender that takes less CPU time than is assumed
// expects that of the peer too, and sends blocks as they are where compressing them is what takes longest.
func TestPeerLikeThisMachine(t *testing.T) {
	c := policy.NewController(policy.ControllerOptions{
		Objective: policy.Elapsed, Cores: 1, Ways: []policy.Way{{
			Option:       policy.Option{Codec: codec.Zstd, Class: codec.Software, Level: codec.Fast},
			CompressRate: 700e6, InflateRate: 1500e6, Ratio: 3,
		}},
	})
	b := policy.Block{Size: 1 << 20, Predicted: 230 << 10, Software: true}
	choice := c.Choose(b)
	if choice.Stored() {
		t.Fatalf("at first: %+v", choice)
	}
	for range 4 {
		const compress = 1.5e-9 * (1 << 20)
		c.Observe(policy.Outcome{
			Option: choice.Option, Size: b.Size, Predicted: b.Predicted, Wire: 220 << 10, CPU: compress,
		})
		// As seen over loopback, with one core on either side.
		c.Window(policy.Window{
			Elapsed: 1.9e-3, Streams: 1, Plain: 1 << 20, Wire: 220 << 10, CPU: compress + 0.32e-3, Compress: compress,
			Worked: 1.9e-3, WorkedCPU: 1.9e-3, Carried: true, Delivered: 220 << 10, Busy: 0.1e-3,
		})
	}
	if next := c.Choose(b); !next.Stored() {
		t.Errorf("%+v though the peer takes less than compressing", next)
	}
}
