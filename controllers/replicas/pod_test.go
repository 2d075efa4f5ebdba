// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lighterage/lighterage/controllers/replicas"
)

// TestApart: replicas are wanted apart on nodes in zones and on nodes in none, and what was said of nodes before stays.
func TestApart(t *testing.T) {
	selector := map[string]string{"a": "b"}
	for _, constraint := range replicas.Spread(selector) {
		if constraint.TopologyKey != corev1.LabelHostname {
			t.Errorf("a constraint on %s has the scheduler ignore all nodes without that label", constraint.TopologyKey)
		}
	}
	nodes := &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100}}}
	for name, before := range map[string]*corev1.Affinity{"none": nil, "of nodes": {NodeAffinity: nodes}} {
		t.Run(name, func(t *testing.T) {
			got := replicas.Apart(before, selector, "pod-template-hash")
			keys := map[string]int32{}
			for _, term := range got.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				keys[term.PodAffinityTerm.TopologyKey] = term.Weight
				if term.PodAffinityTerm.LabelSelector.MatchLabels["a"] != "b" || term.PodAffinityTerm.MatchLabelKeys[0] != "pod-template-hash" {
					t.Errorf("%+v", term)
				}
			}
			if keys[corev1.LabelHostname] == 0 || keys[corev1.LabelTopologyZone] == 0 || len(keys) != 2 {
				t.Errorf("apart by %v", keys)
			}
			if before == nil {
				return
			}
			if before.PodAntiAffinity != nil || len(got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
				t.Errorf("%+v became %+v", before, got)
			}
		})
	}
}
