// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/controllers/replicas"
)

// TestLookAgain: whatever comes first.
func TestLookAgain(t *testing.T) {
	now := time.Now()
	pod := func(age time.Duration, conditions ...corev1.PodCondition) []replica {
		return []replica{{Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     corev1.PodStatus{Conditions: conditions},
		}}}
	}
	for name, test := range map[string]struct {
		agents          []replica
		lifetime, other time.Duration
		problem         bool
		want            time.Duration
	}{
		"nothing":           {nil, 24 * time.Hour, 0, false, 2 * time.Minute},
		"a problem":         {nil, 24 * time.Hour, 0, true, 30 * time.Second},
		"something":         {nil, 24 * time.Hour, time.Minute, false, time.Minute},
		"something later":   {nil, 24 * time.Hour, time.Hour, false, 2 * time.Minute},
		"short lifetime":    {nil, 8 * time.Minute, 0, false, time.Minute},
		"a pod that starts": {pod(50 * time.Second), 24 * time.Hour, 0, false, 11 * time.Second},
		"a pod that hangs":  {pod(time.Hour), 24 * time.Hour, 0, false, 2 * time.Minute},
		"a pod that is ready": {
			pod(50*time.Second, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}), 24 * time.Hour, 0,
			false, 2 * time.Minute,
		},
	} {
		got := replicas.LookAgain(test.agents, time.Minute, test.lifetime, test.problem, now, 0, test.other)
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestApart: replicas are wanted apart on nodes in zones and on nodes in none, and what was said of nodes before stays.
func TestApart(t *testing.T) {
	selector := map[string]string{"a": "b"}
	for _, constraint := range replicas.Spread(selector) {
		if constraint.TopologyKey != corev1.LabelHostname {
			t.Errorf("a constraint on %s has the scheduler ignore all nodes without that label", constraint.TopologyKey)
		}
	}
	nodes := &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100}},
	}
	for name, before := range map[string]*corev1.Affinity{"none": nil, "of nodes": {NodeAffinity: nodes}} {
		t.Run(name, func(t *testing.T) {
			got := replicas.Apart(before, selector, "pod-template-hash")
			keys := map[string]int32{}
			for _, term := range got.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				keys[term.PodAffinityTerm.TopologyKey] = term.Weight
				if term.PodAffinityTerm.LabelSelector.MatchLabels["a"] != "b" ||
					term.PodAffinityTerm.MatchLabelKeys[0] != "pod-template-hash" {
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
