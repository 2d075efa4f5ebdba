// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
)

func TestObserve(t *testing.T) {
	registry := prometheus.NewRegistry()
	transfers := metrics.NewTransfers(registry)
	transfers.Observe("bank", &plan.Finished{Reason: "ConnectionLost", Report: &wirev1.Report{}})
	transfers.Observe("bank", &plan.Finished{Reason: "Succeeded", RunEnded: true, Report: &wirev1.Report{
		Compression: &wirev1.Compression{UncompressedBytes: 400, CompressedBytes: 100}, WireBytes: 120,
		Cpu:   &wirev1.CPU{SendNanos: 3e9, ReceiveNanos: 2e9, CompressNanos: 1e9, DecompressNanos: 5e9},
		Store: &wirev1.StoreTraffic{WriteRequests: 7, ReadRequests: 8, SentBytes: 90, ReceivedBytes: 10},
	}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			got[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = metric.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"lighterage_transfer_attempts_total{bank,ConnectionLost}":        1,
		"lighterage_transfer_attempts_total{bank,Succeeded}":             1,
		"lighterage_transfer_runs_total{bank,Succeeded}":                 1,
		"lighterage_transfer_uncompressed_bytes_total{bank}":             400,
		"lighterage_transfer_compressed_bytes_total{bank}":               100,
		"lighterage_transfer_wire_bytes_total{bank}":                     120,
		"lighterage_transfer_store_requests_total{write,bank}":           7,
		"lighterage_transfer_store_requests_total{read,bank}":            8,
		"lighterage_transfer_store_bytes_total{send,bank}":               90,
		"lighterage_transfer_store_bytes_total{receive,bank}":            10,
		"lighterage_transfer_cpu_seconds_total{bank,send,compress}":      1,
		"lighterage_transfer_cpu_seconds_total{bank,send,other}":         2,
		"lighterage_transfer_cpu_seconds_total{bank,receive,decompress}": 5,
		"lighterage_transfer_cpu_seconds_total{bank,receive,other}":      0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if _, ok := got["lighterage_transfer_runs_total{bank,ConnectionLost}"]; ok {
		t.Error("an attempt that is retried counts as a run")
	}
}
