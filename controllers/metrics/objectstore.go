// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// ObjectStores are the collectors of ObjectStores. They are safe for concurrent use.
type ObjectStores struct {
	ready, notReady *prometheus.GaugeVec
	probes          *prometheus.CounterVec

	mu    sync.Mutex
	known map[types.NamespacedName]bool
}

// NewObjectStores makes the collectors and registers them.
func NewObjectStores(registry prometheus.Registerer) *ObjectStores {
	n := namespaced{registry}
	return &ObjectStores{
		ready:    n.gauge("lighterage_objectstore_ready", "ObjectStores that are Ready."),
		notReady: n.gauge("lighterage_objectstore_not_ready", "ObjectStores that are not Ready."),
		probes: n.counter("lighterage_objectstore_probes_total",
			"Probes of ObjectStores that have ended, by the reason of the condition Ready that they led to.", "reason"),
		known: map[types.NamespacedName]bool{},
	}
}

// Observe shows whether an ObjectStore is Ready.
func (o *ObjectStores) Observe(store types.NamespacedName, ready bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.known[store]
	if known && before == ready {
		return
	}
	o.forget(store)
	o.known[store] = ready
	o.gauge(ready).WithLabelValues(store.Namespace).Inc()
}

// Probed counts a probe that has ended.
func (o *ObjectStores) Probed(store types.NamespacedName, reason string) {
	o.probes.WithLabelValues(store.Namespace, reason).Inc()
}

// Forget shows nothing more of an ObjectStore that is gone.
func (o *ObjectStores) Forget(store types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(store)
}

func (o *ObjectStores) forget(store types.NamespacedName) {
	if ready, known := o.known[store]; known {
		delete(o.known, store)
		o.gauge(ready).WithLabelValues(store.Namespace).Dec()
	}
}

func (o *ObjectStores) gauge(ready bool) *prometheus.GaugeVec {
	if ready {
		return o.ready
	}
	return o.notReady
}
