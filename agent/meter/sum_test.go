// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// TestMinus: what is counted together counts as one by one, and a difference has only what came since.
func TestMinus(t *testing.T) {
	var together, single meter.Meter
	before := meter.Outcome{
		Path: meter.Hardware, Reason: policy.HardwareUsed, Use: meter.Use{Engine: "a"}, PlainBytes: 10, WireBytes: 5, CPU: 1,
	}
	together.Add(before)
	base := together.Snapshot()
	together.AddStored(policy.BelowMinimum, 3, 21)
	together.AddCPU(time.Second)
	use := meter.Outcome{
		Path: meter.Software, Reason: policy.SoftwareUsed, Use: meter.Use{Engine: "b"}, PlainBytes: 100, WireBytes: 50,
		Estimate: meter.Estimate{Blocks: 1},
	}
	together.Add(use)
	for range 3 {
		single.Add(meter.Outcome{Path: meter.Stored, Reason: policy.BelowMinimum, PlainBytes: 7, WireBytes: 7})
	}
	use.CPU = time.Second
	single.Add(use)
	if diff := cmp.Diff(single.Snapshot(), together.Snapshot().Minus(base)); diff != "" {
		t.Error(diff)
	}
}

// TestPlus: what two meters counted is what one would have.
func TestPlus(t *testing.T) {
	var a, b, all meter.Meter
	for _, o := range []meter.Outcome{
		{
			Path: meter.Software, Reason: policy.SoftwareUsed, Use: meter.Use{Codec: codec.Zstd, Engine: "zstd"}, PlainBytes: 10,
			WireBytes: 5, CPU: 3, Estimate: meter.Estimate{Blocks: 1},
		},
		{Path: meter.Stored, Reason: policy.Incompressible, PlainBytes: 7, WireBytes: 7, CPU: 1},
		{Path: meter.Fallback, PlainBytes: 20, WireBytes: 9, CPU: 2},
		{
			Path: meter.Hardware, Reason: policy.HardwareUsed, Use: meter.Use{Codec: codec.Deflate, Engine: "dfltcc"},
			PlainBytes: 4, WireBytes: 3,
		},
	} {
		all.Add(o)
		all.Add(o)
		a.Add(o)
		b.Add(o)
	}
	before := a.Snapshot()
	if diff := cmp.Diff(all.Snapshot(), before.Plus(b.Snapshot())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.Snapshot(), before); diff != "" {
		t.Errorf("a sum changed what it is of: %s", diff)
	}
}
