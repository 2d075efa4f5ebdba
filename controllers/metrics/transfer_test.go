// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
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
	}, DataPath: &v1alpha1.DataPath{Type: v1alpha1.DataPathTCP, Reason: v1alpha1.DataPathFellBack}})
	got := gathered(t, registry)
	for name, want := range map[string]float64{
		"lighterage_transfer_attempts_total{bank,ConnectionLost}":        1,
		"lighterage_transfer_attempts_total{bank,Succeeded}":             1,
		"lighterage_transfer_runs_total{bank,Succeeded}":                 1,
		"lighterage_transfer_data_paths_total{bank,FellBack,TCP}":        1,
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

// Each hook counts once, when its end is seen.
func TestHooks(t *testing.T) {
	registry := prometheus.NewRegistry()
	transfers := metrics.NewTransfers(registry)
	begun := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	hook := func(job string, state v1alpha1.HookState, took time.Duration) v1alpha1.HookStatus {
		s := v1alpha1.HookStatus{Job: job, State: state, StartTime: &begun}
		if s.Ended() {
			s.CompletionTime = &metav1.Time{Time: begun.Add(took)}
		}
		return s
	}
	pair := func(before, after v1alpha1.HookStatus) *v1alpha1.HooksStatus {
		return &v1alpha1.HooksStatus{Before: before, After: after}
	}
	pending := v1alpha1.HookStatus{Job: "a1", State: v1alpha1.HookPending}
	statuses := []*v1alpha1.HooksStatus{
		nil,
		pair(hook("b1", v1alpha1.HookStarting, 0), pending),
		pair(hook("b1", v1alpha1.HookRunning, 0), pending),
		pair(hook("b1", v1alpha1.HookComplete, 4*time.Second), pending),
		pair(hook("b1", v1alpha1.HookComplete, 4*time.Second), hook("a1", v1alpha1.HookRunning, 0)),
		pair(hook("b1", v1alpha1.HookComplete, 4*time.Second), hook("a1", v1alpha1.HookFailed, time.Minute)),
		// The next run, whose before-hook is rejected at once, by a clock that was set back.
		pair(hook("b2", v1alpha1.HookRejected, -time.Second), v1alpha1.HookStatus{Job: "a2", State: v1alpha1.HookSkipped}),
		pair(v1alpha1.HookStatus{State: v1alpha1.HookSkipped}, hook("a3", v1alpha1.HookComplete, time.Second)),
		nil,
	}
	for i := 1; i < len(statuses); i++ {
		for range 2 { // a status that is written again has not changed
			transfers.ObserveHooks("bank", statuses[i-1], statuses[i])
			statuses[i-1] = statuses[i]
		}
	}
	got := gathered(t, registry)
	want := map[string]float64{
		"lighterage_transfer_hooks_total{after,bank,Complete}":  1,
		"lighterage_transfer_hooks_total{after,bank,Failed}":    1,
		"lighterage_transfer_hooks_total{before,bank,Complete}": 1,
		"lighterage_transfer_hooks_total{before,bank,Rejected}": 1,
		"lighterage_transfer_hook_seconds_total{after,bank}":    61,
		"lighterage_transfer_hook_seconds_total{before,bank}":   4,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
