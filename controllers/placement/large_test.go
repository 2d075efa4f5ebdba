// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
)

// large is a cluster with so many nodes, every fifth with an accelerator.
func large(nodes int) placement.Facts {
	facts := placement.Facts{Profiles: map[string]v1alpha1.NodeProfileStatus{}, FreeSlots: map[string]int64{}}
	for i := range nodes {
		name, has := fmt.Sprintf("node-%05d", i), placement.Software
		if i%5 == 0 {
			has = placement.Hardware
			facts.FreeSlots[name] = 1
		}
		facts.Nodes = append(facts.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{v1alpha1.DeflateLabel: has, corev1.LabelArchStable: "s390x"},
			},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
		facts.Profiles[name] = v1alpha1.NodeProfileStatus{Architecture: "s390x"}
	}
	return facts
}

// BenchmarkDecide is to grow with the number of nodes and not with its square.
func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		facts := large(nodes)
		request := placement.Request{
			Placement: v1alpha1.PlacementPreferHardware, Level: v1alpha1.CompressionFast, Architectures: []string{"s390x"},
		}
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			for b.Loop() {
				placement.Decide(request, facts)
			}
		})
	}
}

// TestFactsAreNotChanged: all decisions share them.
func TestFactsAreNotChanged(t *testing.T) {
	facts, untouched := large(40), large(40)
	facts.Attached, untouched.Attached = "node-00003", "node-00003"
	for _, where := range []v1alpha1.Placement{
		v1alpha1.PlacementAnyNode, v1alpha1.PlacementPreferHardware, v1alpha1.PlacementRequireHardware,
	} {
		for _, request := range []placement.Request{
			{Placement: where}, {Placement: where, Waits: true}, {Placement: where, Inflates: true},
			{Placement: where, Shun: v1alpha1.PlacementReasonNoRoom},
			{Placement: where, Selector: map[string]string{corev1.LabelArchStable: "arm64"}, AvoidHardware: true},
			{Placement: where, Architectures: []string{"arm64"}},
		} {
			placement.Decide(request, facts)
			placement.Admit(request, facts)
			placement.Explain(request, facts, "node-00005")
		}
	}
	if diff := cmp.Diff(untouched, facts); diff != "" {
		t.Error(diff)
	}
}
