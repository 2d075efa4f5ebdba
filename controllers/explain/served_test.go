// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

// served are objects that serve in mode Auto; each has files in testdata.
var served = map[string]func() explain.Object{
	"queue": func() explain.Object {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", Generation: 1}}
		q.Status = v1alpha1.QueueStatus{
			ObservedGeneration: 1, Conditions: ready(), Address: "tls://orders.bank.svc:4222", Ready: "3/3",
			Statistics: &v1alpha1.QueueStatistics{Depth: 1180, Unacknowledged: 12},
			Policy:     servingPolicy(v1alpha1.CodecZstd),
			Compression: &v1alpha1.CompressionStatus{
				Codec: "zstd", Engine: "libzstd", Level: "Fast", Reason: v1alpha1.CompressionSoftwareUsed, Ratio: "2.43",
				UncompressedBytes: 2 * gib, CompressedBytes: 2 * gib * 100 / 243,
				Software: v1alpha1.Operations{Operations: 160000, Bytes: 3 * gib / 2},
				Stored:   v1alpha1.Operations{Operations: 420000, Bytes: gib / 2},
				Reasons:  map[string]int64{v1alpha1.CompressionSoftwareUsed: 160000},
				Skipped:  map[string]int64{v1alpha1.CompressionDiskFaster: 420000},
			},
			Decisions: &v1alpha1.DecisionsStatus{
				Objective: v1alpha1.ObjectiveElapsed, LinkBytesPerSecond: 118e6, DiskBytesPerSecond: 210e6,
				SendCPUSecondsPerGiB: "1.042", InflateCPUSecondsPerGiB: "0.913", RegretPercent: "1.4",
				RegretMarginPercent: "0.8", RegretSamples: 512, BestAlternative: "zstd Fast",
				Classes: []v1alpha1.ClassDecision{
					{
						Content: "eu", Size: "<64Ki", Codec: "zstd", Choice: v1alpha1.ClassCompressed, Operations: 160000,
						Bytes: 3 * gib / 2, Ratio: "4.62", CompressCPUSecondsPerGiB: "2.710", OtherPercent: "88.5",
					},
					{
						Content: "ticks", Size: "<4Ki", Codec: "zstd", Choice: v1alpha1.ClassUncompressed,
						Reason: v1alpha1.CompressionDiskFaster, Operations: 420000, Bytes: gib / 2, Trials: 61, Ratio: "1.38",
						CompressCPUSecondsPerGiB: "6.020", OtherPercent: "24.1",
					},
				},
			},
		}
		return q
	},
	// What TestFollowsTheKernel of agent/httpproxy has measured over loopback.
	"endpoint": func() explain.Object {
		e := &v1alpha1.HTTPEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "front", Generation: 1}}
		e.Status = v1alpha1.HTTPEndpointStatus{
			ObservedGeneration: 1, Conditions: ready(), Backend: "api:8080", Ready: "2/2",
			Policy: servingPolicy(v1alpha1.CodecDeflate),
			Compression: &v1alpha1.CompressionStatus{
				Codec: "deflate", Engine: "go", Level: "Fast", Reason: v1alpha1.CompressionSoftwareUsed, Ratio: "2.81",
				UncompressedBytes: 4456380, CompressedBytes: 1585800,
				Software: v1alpha1.Operations{Operations: 63, Bytes: 4128705},
				Stored:   v1alpha1.Operations{Operations: 5, Bytes: 327675},
				Reasons:  map[string]int64{v1alpha1.CompressionSoftwareUsed: 63},
				Skipped:  map[string]int64{v1alpha1.CompressionNetworkFaster: 5},
			},
			Decisions: &v1alpha1.DecisionsStatus{
				Objective: v1alpha1.ObjectiveElapsed, LinkBytesPerSecond: 6492696940, SendCPUSecondsPerGiB: "0.720",
				Classes: []v1alpha1.ClassDecision{{
					Content: "text", Size: "<64Ki", Codec: "deflate", Choice: v1alpha1.ClassUncompressed,
					Reason: v1alpha1.CompressionNetworkFaster, Operations: 68, Bytes: 4456380, Ratio: "3.28",
					CompressCPUSecondsPerGiB: "7.124", OtherPercent: "616.8",
				}},
			},
		}
		return e
	},
}

func ready() []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServing,
		Message: "all serve what the spec says",
	}}
}

func servingPolicy(codecs ...v1alpha1.Codec) *v1alpha1.PolicyStatus {
	return &v1alpha1.PolicyStatus{
		Source: "BuiltIn", Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto,
		Codecs: codecs, Level: v1alpha1.CompressionFast,
		Placement: v1alpha1.PlacementPreferHardware, HardwareMinSize: resource.NewQuantity(20000, resource.DecimalSI),
		SoftwareMinSize: resource.NewQuantity(1024, resource.DecimalSI),
	}
}

func TestGoldenOfServed(t *testing.T) {
	for name, object := range served {
		t.Run(name, func(t *testing.T) {
			report, err := explain.Of(object(), explain.Input{Now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			programs, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name+".txt", text.Bytes())
			compare(t, name+".json", append(programs, '\n'))
		})
	}
}
