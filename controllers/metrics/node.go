// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Nodes are the collectors of nodes with an accelerator that was proved to work. They are labelled by its name: a
// cluster has no more of them than nodes. A nil *Nodes collects nothing.
type Nodes struct {
	calls            *prometheus.CounterVec
	busy, contention *prometheus.GaugeVec

	granted, used     *prometheus.CounterVec // by node and kind
	refused           *prometheus.CounterVec // by node, kind and reason
	agents, contended *prometheus.GaugeVec

	mu sync.Mutex
	// said is what a node agent said last of a kind.
	said map[[2]string]Shares
}

// Shares are what a node agent says of agents of a kind, since it started: nanoseconds of the accelerator that it
// granted, and that they used, and how often they did without it for which reason.
type Shares struct{ GrantedNanos, UsedNanos, RefusedShare, RefusedBusy uint64 }

// sharingKinds are those of agents that share accelerators. Labels are no others, whatever a node agent says.
var sharingKinds = []string{"transfer", "delivery", "queue", "httpendpoint"}

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
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		labels = append([]string{"node", "kind"}, labels...)
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(vector)
		return vector
	}
	return &Nodes{
		granted: counter("lighterage_node_accelerator_granted_seconds_total",
			"Time of the node's accelerator that its node agent granted to agents of the kind."),
		used: counter("lighterage_node_accelerator_used_seconds_total",
			"Time that the node's accelerator worked for agents of the kind, without what calls waited, as they estimate it."),
		refused: counter("lighterage_node_accelerator_refusals_total",
			"How often agents of the kind did without the node's accelerator, or waited for it, because of their share.",
			"reason"),
		agents: gauge("lighterage_node_accelerator_agents",
			"Agents that share the node's accelerator."),
		contended: gauge("lighterage_node_accelerator_contended",
			"1 while less of the node's accelerator is granted, because probes of it take several times as long as they did."),
		said:  map[[2]string]Shares{},
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

// Shared takes in what a node agent says of agents of a kind.
func (n *Nodes) Shared(node, kind string, said Shares) {
	if n == nil || !slices.Contains(sharingKinds, kind) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{node, kind}
	before, known := n.said[key]
	n.said[key] = said
	_, heard := n.said[[2]string{node}]
	switch {
	case said.GrantedNanos < before.GrantedNanos || said.UsedNanos < before.UsedNanos ||
		said.RefusedShare < before.RefusedShare || said.RefusedBusy < before.RefusedBusy: // another process
		before = Shares{}
	case !known && !heard: // of the time before this manager
		before = said
	}
	n.granted.WithLabelValues(node, kind).Add(float64(said.GrantedNanos-before.GrantedNanos) / 1e9)
	n.used.WithLabelValues(node, kind).Add(float64(said.UsedNanos-before.UsedNanos) / 1e9)
	n.refused.WithLabelValues(node, kind, v1alpha1.CompressionAcceleratorShare).Add(
		float64(said.RefusedShare - before.RefusedShare))
	n.refused.WithLabelValues(node, kind, v1alpha1.CompressionAcceleratorBusy).Add(
		float64(said.RefusedBusy - before.RefusedBusy))
}

// Sharing shows how many agents share a node's accelerator, and whether there is less of it to share. It is to be
// called after Shared: what a node agent says of a kind first is of the time before this manager, unless the node was
// heard of.
func (n *Nodes) Sharing(node string, agents uint32, contended bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.said[[2]string{node}] = Shares{}
	n.mu.Unlock()
	n.agents.WithLabelValues(node).Set(float64(agents))
	value := 0.0
	if contended {
		value = 1
	}
	n.contended.WithLabelValues(node).Set(value)
}

// Unshared shows that nobody shares a node's accelerator any more.
func (n *Nodes) Unshared(node string) {
	if n != nil {
		n.agents.DeleteLabelValues(node)
		n.contended.DeleteLabelValues(node)
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
	n.Unshared(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.said, [2]string{node})
	for _, kind := range sharingKinds {
		n.granted.DeleteLabelValues(node, kind)
		n.used.DeleteLabelValues(node, kind)
		n.refused.DeletePartialMatch(prometheus.Labels{"node": node, "kind": kind})
		delete(n.said, [2]string{node, kind})
	}
}
