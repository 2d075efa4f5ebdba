// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Populating is the collector of claims that are to have what a Transfer wrote, by namespace and state. They are
// counted and never named: tenants make any number.
type Populating struct {
	gauge *prometheus.GaugeVec

	mu     sync.Mutex
	states map[types.NamespacedName]string
	counts map[[2]string]int
}

// NewPopulating makes the collector and registers it.
func NewPopulating(registry prometheus.Registerer) *Populating {
	p := &Populating{
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lighterage_populating_claims",
			Help: "Claims that do not have yet what a Transfer wrote, by state: Waiting for a node, Populating, or Failing " +
				"until somebody does something.",
		}, []string{"namespace", "state"}),
		states: map[types.NamespacedName]string{}, counts: map[[2]string]int{},
	}
	registry.MustRegister(p.gauge)
	return p
}

// Observe shows the state of a claim; empty: it is not counted any more.
func (p *Populating) Observe(claim types.NamespacedName, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.states[claim]
	if was == state {
		return
	}
	p.add(claim.Namespace, was, -1)
	p.add(claim.Namespace, state, 1)
	if p.states[claim] = state; state == "" {
		delete(p.states, claim)
	}
}

// add changes a number. One that is none is not shown, so that namespaces that are gone leave nothing.
func (p *Populating) add(namespace, state string, n int) {
	if state == "" {
		return
	}
	group := [2]string{namespace, state}
	if p.counts[group] += n; p.counts[group] == 0 {
		delete(p.counts, group)
		p.gauge.DeleteLabelValues(namespace, state)
		return
	}
	p.gauge.WithLabelValues(namespace, state).Set(float64(p.counts[group]))
}
