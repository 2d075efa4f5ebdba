// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const runBytes = 40 << 30

// completed is the status of a Transfer after so many runs, the last of which was this one, as the manager leaves it.
func completed(t *v1alpha1.Transfer, runs int, last string) v1alpha1.TransferStatus {
	at := t.CreationTimestamp.Add(-time.Hour)
	status := v1alpha1.TransferStatus{
		ObservedGeneration: t.Generation, Phase: v1alpha1.TransferComplete, Peer: t.Spec.Destination.Peer,
		Policy: &v1alpha1.PolicyStatus{
			Name: "default", Source: "Default", Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionAuto,
			Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
			Level:  v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware,
			Prices: &v1alpha1.PricesStatus{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"},
		},
		Placement: &v1alpha1.PlacementStatus{Node: nodeName(0), Engine: "zlib-ng",
			Reason: v1alpha1.PlacementReasonAnyNode, Message: "no node with an accelerator reaches the claim"},
		Run: &v1alpha1.RunStatus{
			ID: last, Attempt: 1, Route: v1alpha1.RouteGateway, StartTime: &metav1.Time{Time: at.Add(-time.Hour)},
			CompletionTime:            &metav1.Time{Time: at},
			CertificateExpirationTime: &metav1.Time{Time: at.Add(3 * time.Hour)}, Node: nodeName(0),
			Architecture: amd64, DeliveredBytes: runBytes,
		},
		Progress: runProgress(),
		Compression: &v1alpha1.CompressionStatus{
			Codec: "deflate", Engine: "zlib-ng", Level: "Fast", Reason: v1alpha1.CompressionSoftwareUsed, Ratio: "4.00",
			SavedPercent:      75,
			UncompressedBytes: runBytes, CompressedBytes: runBytes / 4,
			Software: v1alpha1.Operations{Operations: runBytes >> 20, Bytes: runBytes},
			Reasons:  map[string]int64{v1alpha1.CompressionSoftwareUsed: runBytes >> 20},
			Skipped:  map[string]int64{v1alpha1.CompressionIncompressible: 12},
		},
		Decompression: &v1alpha1.DecompressionStatus{Software: v1alpha1.Operations{Operations: runBytes >> 20,
			Bytes: runBytes}},
		CPU: &v1alpha1.CPUStatus{
			SendSeconds: "66.0", ReceiveSeconds: "55.0", CompressSeconds: "40.0", DecompressSeconds: "12.0",
			NetworkSeconds: "16.0", SecondsPerGiB: "3.42",
		},
		Cost: &v1alpha1.CostStatus{Currency: "USD", CPU: "0.0012", Network: "0.5000", Saved: "1.5000"},
	}
	for i := range runs {
		end := at.Add(-time.Duration(i) * 24 * time.Hour)
		status.History = append(status.History, v1alpha1.AttemptRecord{
			RunID: last, Attempt: 1, Reason: v1alpha1.ReasonSucceeded,
			StartTime: &metav1.Time{Time: end.Add(-time.Hour)}, CompletionTime: &metav1.Time{Time: end},
			Duration: &metav1.Duration{Duration: time.Hour}, Node: nodeName(i), Engine: "zlib-ng", Bytes: runBytes,
			CompressedBytes: runBytes / 4,
		})
	}
	ready := conditions.Ready(v1alpha1.ReasonSucceeded,
		"run "+last+" is complete: 4000 files, 42949672960 bytes, 0 files of them unchanged")
	all := append(ready,
		conditions.New(v1alpha1.ConditionComplete, true, v1alpha1.ReasonSucceeded, ready[0].Message),
		conditions.New(v1alpha1.ConditionFailed, false, v1alpha1.ReasonSucceeded, ready[0].Message),
		conditions.New(v1alpha1.ConditionHardwareCompression, false, v1alpha1.CompressionSoftwareUsed,
			"software compressed, as the policy asks"),
	)
	status.Conditions = conditions.Merge(nil, all, t.Generation, at)
	return status
}

func runProgress() *v1alpha1.Progress {
	return &v1alpha1.Progress{Files: 4000, FilesTotal: 4000, Bytes: runBytes, BytesTotal: runBytes, Percent: 100,
		BytesPerSecond: 11e6}
}

// received is the status of a Delivery that has ended.
func received(d *v1alpha1.Delivery) v1alpha1.DeliveryStatus {
	at := d.CreationTimestamp.Add(-time.Hour)
	return v1alpha1.DeliveryStatus{
		ObservedGeneration: d.Generation, Phase: v1alpha1.DeliveryComplete, Peer: d.Spec.Peer,
		Run: &v1alpha1.RunStatus{
			ID: d.Spec.Transfer.Run, Attempt: 1, StartTime: &metav1.Time{Time: at.Add(-time.Hour)},
			CompletionTime:            &metav1.Time{Time: at},
			CertificateExpirationTime: &metav1.Time{Time: at.Add(3 * time.Hour)}, Node: nodeName(0),
			Architecture: amd64,
		},
		Placement: &v1alpha1.PlacementStatus{Node: nodeName(0), Engine: "zlib-ng",
			Reason: v1alpha1.PlacementReasonAnyNode, Message: "no node with an accelerator reaches the claim"},
		Progress: runProgress(),
		Decompression: &v1alpha1.DecompressionStatus{Software: v1alpha1.Operations{Operations: runBytes >> 20,
			Bytes: runBytes}},
		CPU: &v1alpha1.CPUStatus{ReceiveSeconds: "55.0", DecompressSeconds: "12.0"},
		Conditions: conditions.Merge(nil,
			conditions.Ready(v1alpha1.ReasonSucceeded, "everything was received and synced"), d.Generation, at),
	}
}

// drilled is the status of a Drill of which one has ended an hour ago. A scrub has found an object damaged.
func drilled(d *v1alpha1.Drill) v1alpha1.DrillStatus {
	at := metav1.NewTime(d.CreationTimestamp.Add(-time.Hour))
	run := v1alpha1.DrillRecord{
		ID: runID(0), StartTime: metav1.NewTime(at.Add(-time.Hour)), CompletionTime: &at,
		Reason: v1alpha1.ReasonRecovered, Duration: &metav1.Duration{Duration: time.Hour}, CopyTime: &at,
		Message: "drill " + runID(0) + " restored and verified 4000 files, 42949672960 bytes, of the copy",
		Files:   4000, Bytes: runBytes, BytesPerSecond: 11e6, Attempts: 1, Node: nodeName(0), Architecture: amd64,
		CPU: &v1alpha1.CPUStatus{ReceiveSeconds: "55.0", DecompressSeconds: "12.0", SecondsPerGiB: "1.38"},
	}
	status := v1alpha1.DrillStatus{ObservedGeneration: d.Generation}
	state := conditions.Ready
	if d.Spec.Scrub == "" {
		status.LastRecoverableTime = &at
	} else {
		state = conditions.Stalled
		run.Reason, run.Message = v1alpha1.ReasonDataDamaged, `Damaged: 1, for example "a"`
		run.Findings = []v1alpha1.Omission{{What: "Damaged", Count: 1, Examples: []string{"a"}}}
	}
	status.Run, status.History = &run, []v1alpha1.DrillRecord{run}
	status.Conditions = conditions.Merge(nil, append(state(run.Reason, run.Message), conditions.New(
		v1alpha1.ConditionRecoverable, d.Spec.Scrub == "", run.Reason, run.Message)), d.Generation, at.Time)
	return status
}
