// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/metrics"
)

func TestPopulating(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p := metrics.NewPopulating(registry)
	at := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	p.Observe(at("bank", "unknown"), "")
	check(t, registry, nil)
	p.Observe(at("bank", "a"), "Waiting")
	p.Observe(at("bank", "b"), "Populating")
	p.Observe(at("shop", "a"), "Populating")
	p.Observe(at("bank", "a"), "Populating")
	p.Observe(at("bank", "a"), "Populating")
	check(t, registry, map[string]float64{
		"lighterage_populating_claims{bank,Populating}": 2, "lighterage_populating_claims{shop,Populating}": 1,
	})
	p.Observe(at("bank", "b"), "Failing")
	p.Observe(at("shop", "a"), "")
	check(t, registry, map[string]float64{
		"lighterage_populating_claims{bank,Failing}": 1, "lighterage_populating_claims{bank,Populating}": 1,
	})
	p.Observe(at("bank", "a"), "")
	p.Observe(at("bank", "b"), "")
	check(t, registry, nil)
}
