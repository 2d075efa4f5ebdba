// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// ObjectStores are the collectors of agents of ObjectStores. Inventory shows how many are Ready.
type ObjectStores struct{ probes, relays *prometheus.CounterVec }

// NewObjectStores makes the collectors and registers them.
func NewObjectStores(registry prometheus.Registerer) *ObjectStores {
	in := namespaced{registry}
	return &ObjectStores{
		probes: in.counter("lighterage_objectstore_probes_total",
			"Probes of ObjectStores that have ended, by the reason of the condition Ready that they led to.", "reason"),
		relays: in.counter("lighterage_objectstore_relays_ended_total",
			"Relays of ObjectStores that have ended and start again, by the reason of the condition HandOffReady.", "reason"),
	}
}

// Probed counts a probe that has ended.
func (o *ObjectStores) Probed(namespace, reason string) {
	o.probes.WithLabelValues(namespace, reason).Inc()
}

// RelayEnded counts a relay that has ended.
func (o *ObjectStores) RelayEnded(namespace, reason string) {
	o.relays.WithLabelValues(namespace, reason).Inc()
}
