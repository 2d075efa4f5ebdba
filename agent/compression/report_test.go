// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compression_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestReport(t *testing.T) {
	var m meter.Meter
	if diff := cmp.Diff(&wirev1.Compression{
		Codec: "none", Hardware: &wirev1.Operations{}, Software: &wirev1.Operations{}, Stored: &wirev1.Operations{},
	}, compression.Report(m.Snapshot()), protocmp.Transform()); diff != "" {
		t.Errorf("of nothing: %s", diff)
	}
	m.AddStored(policy.Incompressible, 3, 9)
	if got := compression.Report(m.Snapshot()); got.GetReason() != "Incompressible" || got.GetEngine() != "" {
		t.Errorf("nothing compressed: %v", got)
	}
	for range 2 {
		o := meter.Outcome{
			Path: meter.Software, Reason: policy.NoAccelerator, PlainBytes: 100, WireBytes: 40, CPU: 7,
			Use: meter.Use{Codec: codec.Zstd, Engine: "libzstd", Level: codec.High},
		}
		o.Estimate.Found(100, 50, 40)
		o.Estimate.CPU = 3
		m.Add(o)
	}
	m.Add(meter.Outcome{
		Path: meter.Hardware, Reason: policy.HardwareUsed, PlainBytes: 150, WireBytes: 15,
		Use: meter.Use{Codec: codec.Deflate, Engine: "dfltcc", Level: codec.Fast},
	})
	if diff := cmp.Diff(&wirev1.Compression{
		Codec: "zstd", Engine: "libzstd", Level: "High", Reason: "NoAccelerator",
		UncompressedBytes: 359, CompressedBytes: 104,
		Hardware: &wirev1.Operations{Operations: 1, Bytes: 150}, Software: &wirev1.Operations{Operations: 2, Bytes: 200},
		Stored:  &wirev1.Operations{Operations: 3, Bytes: 9},
		Reasons: map[string]uint64{"NoAccelerator": 2, "HardwareUsed": 1}, Skipped: map[string]uint64{"Incompressible": 3},
		Estimate: &wirev1.Estimate{Blocks: 2, Bytes: 200, ErrorBytes: 20, Nanos: 6},
	}, compression.Report(m.Snapshot()), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestDecompression(t *testing.T) {
	for name, c := range map[string]struct {
		paths map[meter.Path]int
		want  string
	}{
		"nothing":       {map[meter.Path]int{meter.Stored: 100}, ""},
		"hardware":      {map[meter.Path]int{meter.Hardware: 100, meter.Software: 10}, "HardwareUsed"},
		"software most": {map[meter.Path]int{meter.Hardware: 10, meter.Fallback: 100}, "BelowMinimum"},
	} {
		var m meter.Meter
		for path, bytes := range c.paths {
			m.Add(meter.Outcome{Path: path, PlainBytes: bytes})
		}
		if got := compression.Decompression(m.Snapshot(), policy.BelowMinimum).GetReason(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
