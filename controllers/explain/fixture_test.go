// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

const mib, gib = 1 << 20, 1 << 30

func at(second int) *metav1.Time {
	return new(metav1.NewTime(time.Date(2026, 1, 2, 2, 0, second, 0, time.UTC)))
}

func level(name v1alpha1.CompressionLevel, rate int64, ratio string, selected bool) v1alpha1.LevelProfile {
	return v1alpha1.LevelProfile{Level: name, CompressBytesPerSecond: rate, Ratio: ratio, Selected: selected}
}

// worker is the profile of an amd64 node.
func worker(name string) *v1alpha1.NodeProfile {
	profile := &v1alpha1.NodeProfile{Status: v1alpha1.NodeProfileStatus{
		Architecture: "amd64", Cores: 4, NetworkCPUSecondsPerGiB: "0.50",
		DataPaths: []v1alpha1.PathProfile{{Type: v1alpha1.DataPathMPTCP, CPUSecondsPerGiB: "0.8125", Runs: 17}},
		Engines: []v1alpha1.EngineProfile{
			{Name: "isa-l", Codec: "deflate", Verified: true, DecompressBytesPerSecond: 900e6, Inflates: true,
				Levels: []v1alpha1.LevelProfile{
					level(v1alpha1.CompressionFast, 500e6, "3.00", true),
				}},
			{Name: "zlib-ng", Codec: "deflate", Verified: true, DecompressBytesPerSecond: 600e6, Levels: []v1alpha1.LevelProfile{
				level(v1alpha1.CompressionFast, 250e6, "3.00", false), level(v1alpha1.CompressionBalanced, 100e6, "3.60", true),
			}},
			{Name: "libzstd", Codec: "zstd", Verified: true, DecompressBytesPerSecond: 1800e6, Inflates: true,
				Levels: []v1alpha1.LevelProfile{
					level(v1alpha1.CompressionFast, 400e6, "3.30", true), level(v1alpha1.CompressionHigh, 10e6, "4.50", true),
				}},
			{
				Name: "go", Codec: "deflate", Verified: false,
				Levels: []v1alpha1.LevelProfile{level(v1alpha1.CompressionFast, 90e6, "2.90", false)},
			},
		},
	}}
	profile.Name = name
	return profile
}

// mainframe is the profile of a node with an accelerator.
func mainframe() *v1alpha1.NodeProfile {
	profile := &v1alpha1.NodeProfile{Status: v1alpha1.NodeProfileStatus{
		Architecture: "s390x", Cores: 2,
		Accelerator: &v1alpha1.NodeAccelerator{
			AcceleratorProfile: v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified, Reason: "Proved"},
		},
		Engines: []v1alpha1.EngineProfile{
			{Name: "dfltcc", Codec: "deflate", Verified: true, DecompressBytesPerSecond: 8e9, Inflates: true,
				Levels: []v1alpha1.LevelProfile{
					level(v1alpha1.CompressionFast, 4e9, "2.80", true),
				}},
			{Name: "zlib-ng", Codec: "deflate", Verified: true, DecompressBytesPerSecond: 500e6, Levels: []v1alpha1.LevelProfile{
				level(v1alpha1.CompressionFast, 200e6, "3.00", false),
			}},
		},
	}}
	profile.Name = "z15-a"
	return profile
}

// base is a run of 4 GiB to another cluster that is complete. A quarter was stored; the rest shrank to a fourth of
// itself, while the engine's sample shrinks to a third, and took twice as long as the sample.
func base() explain.Input {
	transfer := &v1alpha1.Transfer{}
	transfer.Namespace, transfer.Name = "bank", "ledger"
	transfer.Spec.Destination.Peer = "west"
	transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: "priced", Level: v1alpha1.CompressionBalanced}
	transfer.Status = v1alpha1.TransferStatus{
		Phase: v1alpha1.TransferComplete, Peer: "west",
		Run: &v1alpha1.RunStatus{
			ID: "7f3c", Attempt: 2, Route: v1alpha1.RouteGateway, StartTime: at(0), CompletionTime: at(50), Node: "worker-1",
			Architecture: "amd64",
		},
		Policy: &v1alpha1.PolicyStatus{
			Name: "priced", Source: "Named", Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionAuto,
			Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate, v1alpha1.CodecZstd}, Level: v1alpha1.CompressionBalanced,
			Placement:       v1alpha1.PlacementPreferHardware,
			HardwareMinSize: resource.NewQuantity(20000, resource.DecimalSI),
			SoftwareMinSize: resource.NewQuantity(1024, resource.DecimalSI),
			Prices:          &v1alpha1.PricesStatus{Currency: "USD", CPUHour: "0.036", NetworkGiB: "0.05"},
		},
		Placement: &v1alpha1.PlacementStatus{
			Node: "worker-1", Engine: "isa-l", Reason: v1alpha1.CompressionNoAccelerator,
			Message: "no node with an accelerator can take the agent (z15-a: cordoned)",
			Alternatives: []v1alpha1.PlacementAlternative{
				{Node: "z15-a", Engine: "dfltcc", Reason: v1alpha1.PlacementReasonCordoned},
			},
		},
		Progress: &v1alpha1.Progress{BytesPerSecond: 4 * gib / 40},
		Compression: &v1alpha1.CompressionStatus{
			Codec: "deflate", Engine: "isa-l", Level: "Fast", Reason: v1alpha1.CompressionNoAccelerator, Ratio: "2.29",
			SavedPercent:      56,
			UncompressedBytes: 4 * gib, CompressedBytes: gib + 3*gib/4,
			Software: v1alpha1.Operations{Operations: 3072, Bytes: 3 * gib},
			Stored:   v1alpha1.Operations{Operations: 1025, Bytes: gib},
			Reasons:  map[string]int64{v1alpha1.CompressionNoAccelerator: 3072},
			Skipped:  map[string]int64{v1alpha1.CompressionIncompressible: 1024, v1alpha1.CompressionBelowMinimum: 1},
			Estimate: &v1alpha1.EstimateStatus{Blocks: 3072, MeanErrorPercent: "1.8", Probes: 16, CPUSeconds: "0.20"},
		},
		Decompression: &v1alpha1.DecompressionStatus{Software: v1alpha1.Operations{Operations: 3072, Bytes: 3 * gib}},
		CPU: &v1alpha1.CPUStatus{
			SendSeconds: "20.00", ReceiveSeconds: "10.00", CompressSeconds: "13.08", DecompressSeconds: "4.00",
			NetworkSeconds: "0.88", SecondsPerGiB: "7.72",
		},
		Cost: &v1alpha1.CostStatus{Currency: "USD", CPU: "0.000309", Network: "0.0875", Saved: "0.1123"},
		History: []v1alpha1.AttemptRecord{
			{
				RunID: "7f3c", Attempt: 2, Reason: v1alpha1.ReasonSucceeded, Duration: &metav1.Duration{Duration: 40 * time.Second},
			},
			{
				RunID: "7f3c", Attempt: 1, Reason: v1alpha1.ReasonConnectionLost,
				Duration: &metav1.Duration{Duration: 5 * time.Second},
			},
		},
	}
	return explain.Input{
		Transfer: transfer, Sender: worker("worker-1"),
		ReceiverUnknown: "the receiver is in the cluster of Peer west, whose NodeProfiles this cluster does not have",
	}
}
