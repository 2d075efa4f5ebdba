// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/metrics"
)

func TestObjectStores(t *testing.T) {
	registry := prometheus.NewRegistry()
	stores := metrics.NewObjectStores(registry)
	one, other := types.NamespacedName{Namespace: "bank", Name: "a"}, types.NamespacedName{Namespace: "bank", Name: "b"}
	check := func(what string, ready, notReady float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				got[family.GetName()] += metric.GetGauge().GetValue()
			}
		}
		if got["lighterage_objectstore_ready"] != ready || got["lighterage_objectstore_not_ready"] != notReady {
			t.Errorf("%s: %v", what, got)
		}
	}
	for range 2 {
		stores.Observe(one, false)
		stores.Observe(other, true)
	}
	check("seen twice", 1, 1)
	stores.Observe(one, true)
	check("one became Ready", 2, 0)
	for range 2 {
		stores.Forget(other)
	}
	check("one is gone", 1, 0)
}
