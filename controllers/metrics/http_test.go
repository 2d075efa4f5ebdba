// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/metrics"
)

// gathered are the values of counters and gauges by name and labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
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
			got[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = metric.GetCounter().GetValue() +
				metric.GetGauge().GetValue()
		}
	}
	return got
}

func TestHTTPEndpoints(t *testing.T) {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	report := func(since time.Time, responses uint64) *wirev1.HTTPReport {
		return &wirev1.HTTPReport{
			Statistics: &wirev1.HTTPStatistics{
				Since: timestamppb.New(since), ActiveConnections: 2, SoftwareResponses: responses, UrlErrors: 2 * responses,
				ResponsesByCoding: map[string]uint64{"gzip": responses, "made-up": 7},
			},
			Compression: &wirev1.Compression{UncompressedBytes: 400 * responses, CompressedBytes: 100 * responses, Skipped: map[string]uint64{
				"NetworkFaster": responses, "made-up": responses, "invented": responses,
			}},
			Cpu: &wirev1.CPU{SendNanos: 3e9 * responses, CompressNanos: 1e9 * responses},
		}
	}
	registry := prometheus.NewRegistry()
	endpoints := metrics.NewHTTPEndpoints(registry, started)
	observe := func(endpoint string, replicas map[string]*wirev1.HTTPReport) {
		endpoints.Observe("bank", endpoint, replicas)
	}
	before, after := started.Add(-time.Hour), started.Add(time.Minute)

	// What an earlier manager saw is the base; what began since counts from 0.
	observe("e1", map[string]*wirev1.HTTPReport{"old": report(before, 100), "new": report(after, 5)})
	observe("e1", map[string]*wirev1.HTTPReport{"old": report(before, 103), "new": report(after, 5)})
	// A reset begins again; a replica that does not answer once loses nothing.
	observe("e1", map[string]*wirev1.HTTPReport{"old": report(after.Add(time.Minute), 2)})
	observe("e2", map[string]*wirev1.HTTPReport{"other": report(after, 1)})
	observe("e1", nil)
	observe("e1", map[string]*wirev1.HTTPReport{"old": report(after.Add(time.Minute), 4)})

	const responses = 5 + 3 + 4 + 1
	for name, want := range map[string]float64{
		"lighterage_http_responses_total{bank,software}":   responses,
		"lighterage_http_coded_responses_total{gzip,bank}": responses,
		"lighterage_http_url_errors_total{bank}":           2 * responses,
		"lighterage_http_uncompressed_bytes_total{bank}":   400 * responses,
		"lighterage_http_compressed_bytes_total{bank}":     100 * responses,
		"lighterage_http_cpu_seconds_total{bank,compress}": responses,
		"lighterage_http_cpu_seconds_total{bank,other}":    2 * responses,
		"lighterage_http_active_connections{bank}":         4,

		"lighterage_http_stored_responses_total{bank,NetworkFaster}": responses,
		"lighterage_http_stored_responses_total{bank,Other}":         2 * responses,
	} {
		if got := gathered(t, registry); got[name] != want {
			t.Errorf("%s is %v, want %v (all: %v)", name, got[name], want, got)
		}
	}
	for name := range gathered(t, registry) {
		if strings.Contains(name, "made-up") || strings.Contains(name, "e1") {
			t.Errorf("%s has a label that is not bounded", name)
		}
	}
	endpoints.Forget("e1")
	if got := gathered(t, registry)["lighterage_http_active_connections{bank}"]; got != 2 {
		t.Errorf("after one of two endpoints has gone %v connections are active, want 2", got)
	}
}
