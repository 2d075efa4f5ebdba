// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the manager's Prometheus collectors, and those of any process. They are in base units. Objects
// in namespaces are labelled by the namespace and never by their name, since there may be any number of them; Peers,
// nodes, Tariffs and DataQuotas are named.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// Transfers are the collectors that attempts of Transfers feed, each once, when it has ended.
type Transfers struct {
	attempts, runs, paths    *prometheus.CounterVec
	plain, compressed, wired *prometheus.CounterVec
	cpu                      *prometheus.CounterVec
	hooks, hookSeconds       *prometheus.CounterVec
	store                    storeTraffic
}

// NewTransfers makes the collectors and registers them.
func NewTransfers(registry prometheus.Registerer) *Transfers {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vector := prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: name, Help: help}, append([]string{"namespace"}, labels...),
		)
		registry.MustRegister(vector)
		return vector
	}
	return &Transfers{
		attempts: counter("lighterage_transfer_attempts_total", "Attempts of Transfers that ended, by why.", "outcome"),
		runs:     counter("lighterage_transfer_runs_total", "Runs of Transfers that ended, by why.", "outcome"),
		paths: counter("lighterage_transfer_data_paths_total",
			"Attempts of Transfers that ended, by the path that their data took and why: see status.run.dataPath.", "type",
			"reason"),
		plain: counter("lighterage_transfer_uncompressed_bytes_total",
			"Bytes that Transfers sent, before compression."),
		compressed: counter("lighterage_transfer_compressed_bytes_total",
			"Bytes that Transfers sent, after compression, framing included."),
		wired: counter("lighterage_transfer_wire_bytes_total",
			"Bytes that Transfers wrote to and read from the network, TLS included."),
		cpu: counter("lighterage_transfer_cpu_seconds_total",
			"CPU time of Transfers' agents of both sides: stage is compress, decompress, or other for the rest.", "side",
			"stage"),
		hooks: counter("lighterage_transfer_hooks_total",
			"Hooks of Transfers that ended: hook is before or after, outcome is Complete, Failed or Rejected.", "hook",
			"outcome"),
		hookSeconds: counter("lighterage_transfer_hook_seconds_total",
			"Time from when hooks were begun until their end was seen.", "hook"),
		store: storeTraffic{
			requests: counter("lighterage_transfer_store_requests_total",
				"Requests of Transfers to object stores but for those that delete: class is write, lists included, or read.",
				"class"),
			bytes: counter("lighterage_transfer_store_bytes_total",
				"Bytes of bodies that Transfers sent to object stores and received from them.", "direction"),
		},
	}
}

// Show shows the counters of a namespace at 0 before an attempt has ended there: of one that first appears with a value
// nobody can tell by how much it grew.
func (t *Transfers) Show(namespace string) {
	t.attempts.WithLabelValues(namespace, v1alpha1.ReasonSucceeded)
	t.runs.WithLabelValues(namespace, v1alpha1.ReasonSucceeded)
	t.plain.WithLabelValues(namespace)
	t.compressed.WithLabelValues(namespace)
	t.wired.WithLabelValues(namespace)
	t.observeCPU(namespace, nil)
	t.store.add(namespace, nil)
}

// ObserveHooks counts the hooks that have ended between two statuses of a Transfer, each nil without hooks.
func (t *Transfers) ObserveHooks(namespace string, before, after *v1alpha1.HooksStatus) {
	if after == nil {
		return
	}
	if before == nil {
		before = &v1alpha1.HooksStatus{}
	}
	t.observeHook(namespace, "before", before.Before, after.Before)
	t.observeHook(namespace, "after", before.After, after.After)
}

func (t *Transfers) observeHook(namespace, hook string, before, after v1alpha1.HookStatus) {
	switch {
	case after.Job == "" || !after.Ended() || after.State == v1alpha1.HookSkipped,
		before.Job == after.Job && before.Ended():
		return
	}
	t.hooks.WithLabelValues(namespace, hook, string(after.State)).Inc()
	if after.StartTime != nil && after.CompletionTime != nil {
		took := after.CompletionTime.Sub(after.StartTime.Time)
		t.hookSeconds.WithLabelValues(namespace, hook).Add(max(took.Seconds(), 0)) // the clock may have been set back
	}
}

// Observe counts an attempt that has ended.
func (t *Transfers) Observe(namespace string, finished *plan.Finished) {
	t.attempts.WithLabelValues(namespace, finished.Reason).Inc()
	if finished.RunEnded {
		t.runs.WithLabelValues(namespace, finished.Reason).Inc()
	}
	if path := finished.DataPath; path != nil {
		t.paths.WithLabelValues(namespace, string(path.Type), string(path.Reason)).Inc()
	}
	packed, cpu := finished.Report.GetCompression(), finished.Report.GetCpu()
	t.plain.WithLabelValues(namespace).Add(float64(packed.GetUncompressedBytes()))
	t.compressed.WithLabelValues(namespace).Add(float64(packed.GetCompressedBytes()))
	t.wired.WithLabelValues(namespace).Add(float64(finished.Report.GetWireBytes()))
	t.observeCPU(namespace, cpu)
	t.store.add(namespace, finished.Report.GetStore())
}

func (t *Transfers) observeCPU(namespace string, cpu *wirev1.CPU) {
	add := func(side, stage string, nanos uint64) {
		t.cpu.WithLabelValues(namespace, side, stage).Add(float64(nanos) / 1e9)
	}
	add("send", "compress", cpu.GetCompressNanos())
	add("send", "other", rest(cpu.GetSendNanos(), cpu.GetCompressNanos()))
	add("receive", "decompress", cpu.GetDecompressNanos())
	add("receive", "other", rest(cpu.GetReceiveNanos(), cpu.GetDecompressNanos()))
}

// rest is what of a total is left; the two are measured one after the other and may disagree a little.
func rest(total, part uint64) uint64 {
	return total - min(total, part)
}

// storeTraffic is what was asked of object stores.
type storeTraffic struct{ requests, bytes *prometheus.CounterVec }

func (s storeTraffic) add(namespace string, t *wirev1.StoreTraffic) {
	s.requests.WithLabelValues(namespace, "write").Add(float64(t.GetWriteRequests()))
	s.requests.WithLabelValues(namespace, "read").Add(float64(t.GetReadRequests()))
	s.bytes.WithLabelValues(namespace, "send").Add(float64(t.GetSentBytes()))
	s.bytes.WithLabelValues(namespace, "receive").Add(float64(t.GetReceivedBytes()))
}
