// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
)

func classed(name string, labels map[string]string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func TestAdmit(t *testing.T) {
	nodes := []corev1.Node{
		classed("z", map[string]string{v1alpha1.DeflateLabel: placement.Hardware, corev1.LabelArchStable: "s390x"}),
		classed("x", map[string]string{"rack": "7", corev1.LabelArchStable: "amd64"}),
	}
	for name, test := range map[string]struct {
		request placement.Request
		nodes   []corev1.Node
		says    []string
	}{
		"any":                {placement.Request{}, nodes, nil},
		"software":           {placement.Request{AvoidHardware: true}, nodes, nil},
		"software, hardware": {placement.Request{AvoidHardware: true}, nodes[:1], []string{"z: not of the class"}},
		"selector":           {placement.Request{Selector: map[string]string{"rack": "7"}}, nodes, nil},
		"selector, none": {
			placement.Request{Selector: map[string]string{"rack": ""}}, nodes,
			[]string{"x: not of the class", "z: not of the class"},
		},
		"architecture": {placement.Request{Architectures: []string{"arm64"}}, nodes, []string{"x: the agent's image"}},
		"both": {
			placement.Request{Selector: map[string]string{"rack": "7"}, Architectures: []string{"s390x"}}, nodes,
			[]string{"x: the agent's", "z: not of the class"},
		},
		"nothing is known": {placement.Request{AvoidHardware: true}, nil, nil},
		"hardware and a rack": {
			placement.Request{Placement: v1alpha1.PlacementRequireHardware, Selector: map[string]string{"rack": "7"}}, nodes[:1],
			[]string{"z: not"},
		},
	} {
		blocked := placement.Admit(test.request, placement.Facts{Nodes: test.nodes})
		if (blocked == nil) != (test.says == nil) {
			t.Errorf("%s: %+v", name, blocked)
			continue
		}
		for _, say := range test.says {
			if !strings.Contains(blocked.Message, say) || blocked.Reason != v1alpha1.ReasonUnschedulable {
				t.Errorf("%s: %+v lacks %q", name, blocked, say)
			}
		}
	}
}

func TestClassIsRequired(t *testing.T) {
	r := placement.Request{
		Placement: v1alpha1.PlacementAnyNode, Selector: map[string]string{"rack": "7", "hall": "b"}, AvoidHardware: true,
		Architectures: []string{"amd64"},
	}
	where := placement.Decide(r, placement.Facts{})
	terms := where.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 4 || terms[0].MatchExpressions[1].Key != "hall" ||
		terms[0].MatchExpressions[3].Operator != corev1.NodeSelectorOpNotIn {
		t.Errorf("%+v", terms)
	}
	r.AvoidHardware, r.Placement = false, v1alpha1.PlacementRequireHardware
	terms = placement.Decide(r, placement.Facts{}).Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 2 || len(terms[0].MatchExpressions) != 4 || len(terms[1].MatchExpressions) != 5 {
		t.Errorf("%+v", terms)
	}
}

// TestAble: nodes that can take the agent, of a class; those with the accelerator where it is wanted and there is one.
func TestAble(t *testing.T) {
	nodes := []corev1.Node{
		classed("z", map[string]string{v1alpha1.DeflateLabel: placement.Hardware, "class": "dear"}),
		classed("x", map[string]string{"class": "spot"}), classed("y", map[string]string{"class": "dear"}),
		classed("cordoned", map[string]string{"class": "spot"}),
	}
	nodes[3].Spec.Unschedulable = true
	spot, dear := map[string]string{"class": "spot"}, map[string]string{"class": "dear"}
	for name, test := range map[string]struct {
		placement v1alpha1.Placement
		selector  map[string]string
		nodes     []corev1.Node
		want      []string
	}{
		"any":                       {v1alpha1.PlacementAnyNode, nil, nodes, []string{"x", "y", "z"}},
		"of a class":                {v1alpha1.PlacementAnyNode, spot, nodes, []string{"x"}},
		"with the accelerator":      {v1alpha1.PlacementPreferHardware, dear, nodes, []string{"z"}},
		"of a class without it":     {v1alpha1.PlacementPreferHardware, spot, nodes, nil},
		"where there is none":       {v1alpha1.PlacementPreferHardware, spot, nodes[1:], []string{"x"}},
		"of a class that is not":    {v1alpha1.PlacementAnyNode, map[string]string{"class": "gone"}, nodes, nil},
		"where nothing is known of": {v1alpha1.PlacementAnyNode, nil, nil, nil},
	} {
		request := placement.Request{Placement: test.placement, Selector: test.selector}
		got := placement.Able(request, placement.Facts{Nodes: test.nodes})
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	request := placement.Request{Placement: v1alpha1.PlacementAnyNode, Prefer: spot}
	terms := placement.Decide(request, placement.Facts{Nodes: nodes}).Affinity.NodeAffinity.
		PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].Preference.MatchExpressions[0].Key != "class" {
		t.Errorf("%+v", terms)
	}
}
