// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
)

func TestDecisionsStatus(t *testing.T) {
	if got := agentreport.DecisionsStatus([]*wirev1.Decisions{nil, nil}, nil); got != nil {
		t.Errorf("of agents that report none: %+v", got)
	}
	json := func(reason string, operations, bytes uint64) *wirev1.ClassDecision {
		return &wirev1.ClassDecision{
			Content: "json", Size: "<64Ki", Codec: "deflate", Reason: reason, Operations: operations, Bytes: bytes, Trials: 1,
			CompressedPermille: 200, CompressNanosPerMib: 5e6, Known: true, OtherPermille: 125,
		}
	}
	small := json("", 10, 1000)
	small.CompressedPermille, small.OtherPermille = 500, -30
	css := &wirev1.ClassDecision{Content: "css", Size: "<4Ki", Codec: "zstd", Operations: 3, Bytes: 900}
	got := agentreport.DecisionsStatus([]*wirev1.Decisions{
		{Objective: "CPU", LinkBytesPerSecond: 5e6, SendNanosPerMib: 1, Classes: []*wirev1.ClassDecision{small, css}},
		nil,
		{
			Objective: "Elapsed", LinkBytesPerSecond: 1e9, SendNanosPerMib: 2e6, DiskBytesPerSecond: 3e8, InflateNanosPerMib: 1e6,
			Classes: []*wirev1.ClassDecision{json("NetworkFaster", 40, 5000)},
		},
		{Objective: "CPU", LinkBytesPerSecond: 9e9},
	}, nil)
	want := &v1alpha1.DecisionsStatus{
		Objective: v1alpha1.ObjectiveElapsed, LinkBytesPerSecond: 1e9, DiskBytesPerSecond: 3e8,
		SendCPUSecondsPerGiB: "2.048", InflateCPUSecondsPerGiB: "1.024",
		Classes: []v1alpha1.ClassDecision{
			{
				Content: "json", Size: "<64Ki", Codec: "deflate", Choice: v1alpha1.ClassMixed, Reason: "NetworkFaster",
				Operations: 50, Bytes: 6000, Trials: 2, Ratio: "5.00", CompressCPUSecondsPerGiB: "5.120", OtherPercent: "12.5",
			},
			{Content: "css", Size: "<4Ki", Codec: "zstd", Choice: v1alpha1.ClassCompressed, Operations: 3, Bytes: 900},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDecisionsOfHostileAgents: what agents say is bounded, and can be written into status.
func TestDecisionsOfHostileAgents(t *testing.T) {
	hostile := &wirev1.Decisions{
		Objective: "\x1b[2J", LinkBytesPerSecond: math.MaxUint64, SendNanosPerMib: math.MaxUint64,
		DiskBytesPerSecond: math.MaxUint64, InflateNanosPerMib: math.MaxUint64,
	}
	for i := range 1000 {
		hostile.Classes = append(hostile.Classes, &wirev1.ClassDecision{
			Content: fmt.Sprint(i) + strings.Repeat("\x1b", 1000), Size: strings.Repeat("s", 1000),
			Reason:     strings.Repeat("r", 1000),
			Operations: math.MaxUint64, Bytes: math.MaxUint64, Trials: math.MaxUint64, CompressedPermille: math.MaxUint32,
			CompressNanosPerMib: math.MaxUint64, Known: true, OtherPermille: math.MinInt32,
		})
	}
	got := agentreport.DecisionsStatus([]*wirev1.Decisions{hostile, hostile}, nil)
	if got.Objective != "" || len(got.Classes) != 32 || got.LinkBytesPerSecond < 0 ||
		got.DiskBytesPerSecond < 0 || strings.HasPrefix(got.InflateCPUSecondsPerGiB, "-") {
		t.Errorf("%+v", got)
	}
	for _, c := range got.Classes {
		if c.Operations < 0 || c.Bytes < 0 || c.Trials < 0 || len(c.Content+c.Size+c.Reason) > 3*64 ||
			strings.ContainsRune(c.Content, '\x1b') || c.Choice != v1alpha1.ClassUncompressed {
			t.Fatalf("%+v", c)
		}
	}
}
