// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/metrics"
)

func TestDeliveries(t *testing.T) {
	registry := prometheus.NewRegistry()
	deliveries := metrics.NewDeliveries(registry)
	deliveries.Observe("bank", "NotGranted", nil)
	deliveries.Observe("bank", "Succeeded", &wirev1.Report{
		Progress: &wirev1.Progress{Bytes: 500, UnchangedBytes: 100}, WireBytes: 120,
		Cpu: &wirev1.CPU{ReceiveNanos: 3e9, DecompressNanos: 1e9},
		Decompression: &wirev1.Decompression{
			Hardware: &wirev1.Operations{Bytes: 100}, Software: &wirev1.Operations{Bytes: 300},
			Fallback: &wirev1.Operations{Bytes: 200},
		},
	})
	for name, want := range map[string]float64{
		"lighterage_deliveries_total{bank,NotGranted}":                1,
		"lighterage_deliveries_total{bank,Succeeded}":                 1,
		"lighterage_delivery_uncompressed_bytes_total{bank}":          400,
		"lighterage_delivery_wire_bytes_total{bank}":                  120,
		"lighterage_delivery_decompressed_bytes_total{bank,hardware}": 100,
		"lighterage_delivery_decompressed_bytes_total{bank,software}": 300,
		"lighterage_delivery_fallback_decompressed_bytes_total{bank}": 200,
		"lighterage_delivery_cpu_seconds_total{bank,decompress}":      1,
		"lighterage_delivery_cpu_seconds_total{bank,other}":           2,
	} {
		if got, ok := gathered(t, registry)[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
