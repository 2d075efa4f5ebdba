// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// ObjectStores are the collectors of probes of ObjectStores. Inventory shows how many are Ready.
type ObjectStores struct{ probes *prometheus.CounterVec }

// NewObjectStores makes the collectors and registers them.
func NewObjectStores(registry prometheus.Registerer) *ObjectStores {
	return &ObjectStores{probes: namespaced{registry}.counter("lighterage_objectstore_probes_total",
		"Probes of ObjectStores that have ended, by the reason of the condition Ready that they led to.", "reason")}
}

// Probed counts a probe that has ended.
func (o *ObjectStores) Probed(namespace, reason string) {
	o.probes.WithLabelValues(namespace, reason).Inc()
}
