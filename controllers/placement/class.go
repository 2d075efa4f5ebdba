// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Admit is why no node at all can take the agent, whether or not it has an accelerator; nil when one can, or when
// nothing is known of nodes. Free resources are the scheduler's business.
func Admit(r Request, f Facts) *Blocked {
	nodes := assessAll(r, f)
	// An accelerator that is busy is no obstacle to one that can do without.
	against := slices.DeleteFunc(slices.Clone(nodes), func(a assessed) bool {
		return a.obstacle == "" || a.isBusy()
	})
	if len(against) < len(nodes) || len(nodes) == 0 {
		return nil
	}
	var each []string
	for _, a := range against[:min(len(against), maxNamed)] {
		each = append(each, a.name+": "+obstacles[a.obstacle])
	}
	return &Blocked{
		Reason:  v1alpha1.ReasonUnschedulable,
		Message: fmt.Sprintf("no node can take the agent (%s%s)", strings.Join(each, "; "), more(against)),
	}
}

// selects: the node is of the class that is asked for.
func (r Request) selects(node *corev1.Node) bool {
	if r.AvoidHardware && node.Labels[v1alpha1.DeflateLabel] == Hardware {
		return false
	}
	return Matches(r.Selector, node.Labels)
}

// Matches reports whether labels have all that a selector names.
func Matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Able are the names of the nodes that can take the agent. Where it wants the accelerator and a node has one, they are
// those with it, of the class that is asked for.
func Able(r Request, f Facts) (names []string) {
	selector := r.Selector
	r.Selector = nil // whether there is an accelerator does not depend on it
	nodes := assessAll(r, f)
	if accelerated := candidates(nodes); r.wantsHardware() && len(accelerated) > 0 {
		nodes = accelerated
	}
	labels := map[string]map[string]string{}
	for i := range f.Nodes {
		labels[f.Nodes[i].Name] = f.Nodes[i].Labels
	}
	for _, a := range nodes {
		if a.obstacle == "" && Matches(selector, labels[a.name]) {
			names = append(names, a.name)
		}
	}
	return names
}

// selected is a node selector as an affinity says it.
func selected(labels map[string]string) []corev1.NodeSelectorRequirement {
	var all []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(
			all, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]}},
		)
	}
	return all
}
