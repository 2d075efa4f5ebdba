// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Deliveries are the collectors that Deliveries feed, each once, when it has ended. They count what receiving agents
// of this cluster did; what the sender reports of them is in the metrics of Transfers, where the sender is.
type Deliveries struct {
	ended                  *prometheus.CounterVec
	received, wired        *prometheus.CounterVec
	decompressed, fallback *prometheus.CounterVec
	cpu                    *prometheus.CounterVec
}

// NewDeliveries makes the collectors and registers them.
func NewDeliveries(registry prometheus.Registerer) *Deliveries {
	n := namespaced{registry}
	return &Deliveries{
		ended: n.counter(
			"lighterage_deliveries_total",
			"Deliveries that ended, by why: a reason, or Withdrawn for those that were deleted before.", "outcome",
		),
		received: n.counter(
			"lighterage_delivery_uncompressed_bytes_total",
			"Bytes that receiving agents had at the destination, less those that were there unchanged.",
		),
		wired: n.counter(
			"lighterage_delivery_wire_bytes_total",
			"Bytes that receiving agents wrote to and read from the network, TLS included.",
		),
		decompressed: n.counter(
			"lighterage_delivery_decompressed_bytes_total",
			"Bytes that receiving agents inflated, after that, by path: hardware or software.", "path",
		),
		fallback: n.counter(
			"lighterage_delivery_fallback_decompressed_bytes_total",
			"Bytes that software inflated although hardware had compressed them, after that.",
		),
		cpu: n.counter(
			"lighterage_delivery_cpu_seconds_total",
			"CPU time of receiving agents: stage is decompress, or other for the rest.", "stage",
		),
	}
}

// Observe counts a Delivery that has ended, with what its agent reported last; nil if it reported nothing. The nil
// pointer counts nothing.
func (d *Deliveries) Observe(namespace, outcome string, report *wirev1.Report) {
	if d == nil {
		return
	}
	d.ended.WithLabelValues(namespace, outcome).Inc()
	d.add(namespace, report)
}

// Show is as that of Transfers.
func (d *Deliveries) Show(namespace string) {
	if d == nil {
		return
	}
	d.ended.WithLabelValues(namespace, v1alpha1.ReasonSucceeded)
	d.add(namespace, nil)
}

func (d *Deliveries) add(namespace string, report *wirev1.Report) {
	progress, cpu, inflated := report.GetProgress(), report.GetCpu(), report.GetDecompression()
	d.received.WithLabelValues(namespace).Add(float64(rest(progress.GetBytes(), progress.GetUnchangedBytes())))
	d.wired.WithLabelValues(namespace).Add(float64(report.GetWireBytes()))
	d.decompressed.WithLabelValues(namespace, "hardware").Add(float64(inflated.GetHardware().GetBytes()))
	d.decompressed.WithLabelValues(namespace, "software").Add(float64(inflated.GetSoftware().GetBytes()))
	d.fallback.WithLabelValues(namespace).Add(float64(inflated.GetFallback().GetBytes()))
	d.cpu.WithLabelValues(namespace, "decompress").Add(float64(cpu.GetDecompressNanos()) / 1e9)
	d.cpu.WithLabelValues(namespace, "other").Add(float64(rest(cpu.GetReceiveNanos(), cpu.GetDecompressNanos())) / 1e9)
}
