// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/quota"
)

// TestSharedLimits: a Peer's limits count what goes to it, and those of the cluster count all, as long as it runs.
func TestSharedLimits(t *testing.T) {
	registry := prometheus.NewRegistry()
	i := metrics.NewInventory(registry, nil, clocktesting.NewFakePassiveClock(noon),
		quota.Amounts{quota.RunningTransfers: 9})
	west := &v1alpha1.Peer{}
	west.Name, west.UID = "west", "west"
	west.Spec.Limits = &v1alpha1.PeerLimits{Bandwidth: ptr.To(resource.MustParse("1Mi"))}
	i.Observe(west)
	runs := func(name, peer string) *v1alpha1.Transfer {
		one := transfer(name, 1)
		one.Spec.Destination.Peer = peer
		one.Status.Run = &v1alpha1.RunStatus{
			ID: "abcde", Route: v1alpha1.RouteGateway, BandwidthShare: ptr.To(resource.MustParse("300Ki")),
		}
		return one
	}
	i.Observe(runs("one", "west"))
	i.Observe(runs("two", "east"))
	i.Observe(runs("three", "west"))
	i.Forget(runs("three", "west"))
	want := map[string]float64{
		"lighterage_shared_limit{,runningTransfers}":        9,
		"lighterage_shared_limit_used{,runningTransfers}":   2,
		"lighterage_shared_limit{west,bandwidthShare}":      1 << 20,
		"lighterage_shared_limit_used{west,bandwidthShare}": 300 << 10,
	}
	got := gathered(t, registry)
	maps.DeleteFunc(got, func(name string, _ float64) bool { return want[name] == 0 })
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v, of %v", got, want, gathered(t, registry))
	}
}
