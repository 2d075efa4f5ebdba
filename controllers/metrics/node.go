// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Nodes are the collectors of nodes with an accelerator that was proved to work. They are labelled by its name: a
// cluster has no more of them than nodes. A nil *Nodes collects nothing.
type Nodes struct {
	calls            *prometheus.CounterVec
	busy, contention *prometheus.GaugeVec
}

// NewNodes makes the collectors and registers them.
func NewNodes(registry prometheus.Registerer) *Nodes {
	gauge := func(name, help string) *prometheus.GaugeVec {
		vector := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"node"})
		registry.MustRegister(vector)
		return vector
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lighterage_node_accelerator_call_seconds_total",
		Help: "Time that threads of agents were in calls of the node's accelerator, waiting for it included.",
	}, []string{"node"})
	registry.MustRegister(calls)
	return &Nodes{
		calls: calls,
		busy: gauge("lighterage_node_accelerator_busy_ratio",
			"Share of the accelerators' cycles that the node's partition used in five minutes, by CPU measurement facility."),
		contention: gauge("lighterage_node_accelerator_contention_ratio",
			"Share of the time of calls that they waited for the accelerator in five minutes, by the CPU measurement facility."),
	}
}

// Called counts time in calls of a node's accelerator.
func (n *Nodes) Called(node string, spent time.Duration) {
	if n != nil {
		n.calls.WithLabelValues(node).Add(spent.Seconds())
	}
}

// Used shows what the CPU measurement facility counted; NaN is not shown.
func (n *Nodes) Used(node string, busy, contention float64) {
	if n == nil {
		return
	}
	for _, figure := range []struct {
		vector *prometheus.GaugeVec
		value  float64
	}{{n.busy, busy}, {n.contention, contention}} {
		if math.IsNaN(figure.value) {
			figure.vector.DeleteLabelValues(node)
			continue
		}
		figure.vector.WithLabelValues(node).Set(figure.value)
	}
}

// Forget shows nothing more of a node.
func (n *Nodes) Forget(node string) {
	if n == nil {
		return
	}
	n.calls.DeleteLabelValues(node)
	n.busy.DeleteLabelValues(node)
	n.contention.DeleteLabelValues(node)
}
