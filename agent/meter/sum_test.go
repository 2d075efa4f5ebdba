// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// TestMinus: what is counted together counts as one by one, and a difference has only what came since.
func TestMinus(t *testing.T) {
	var together, single meter.Meter
	before := meter.Outcome{Path: meter.Hardware, Reason: policy.HardwareUsed, Use: meter.Use{Engine: "a"}, PlainBytes: 10, WireBytes: 5, CPU: 1}
	together.Add(before)
	base := together.Snapshot()
	together.AddStored(policy.BelowMinimum, 3, 21)
	together.AddCPU(time.Second)
	use := meter.Outcome{Path: meter.Software, Reason: policy.SoftwareUsed, Use: meter.Use{Engine: "b"}, PlainBytes: 100, WireBytes: 50, Estimate: meter.Estimate{Blocks: 1}}
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
