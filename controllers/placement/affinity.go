// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// affinity says which nodes the scheduler is to prefer or to take. It goes by labels and not by names, so that a node
// that joins while the pod waits is found. Node Feature Discovery's label says only that the facility is there, so it
// does not count on a node that was measured to have no working accelerator. The node on which the volume is in use is
// preferred to all others, by its name: elsewhere the agent would wait for the volume, which the scheduler does not
// look at. It is not required, because whoever uses the volume may move.
func affinity(r Request, accelerators avoidance, attached string) *corev1.Affinity {
	measured := []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.DeflateLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{Hardware}},
	}
	discovered := []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.NFDDeflateLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}},
		{Key: v1alpha1.DeflateLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{Software}},
	}
	without := []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.DeflateLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{Hardware}},
	}
	var built []corev1.NodeSelectorRequirement
	if len(r.Architectures) > 0 {
		built = []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(r.Architectures)},
		}
	}
	built = append(built, selected(r.Selector)...)
	if accelerators == avoid || r.AvoidHardware {
		built = append(built, without...)
	}
	var nodes corev1.NodeAffinity
	switch {
	case r.Placement == v1alpha1.PlacementRequireHardware:
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: slices.Concat(measured, built)},
				{MatchExpressions: slices.Concat(discovered, built)},
			},
		}
	case len(built) > 0:
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: built},
			},
		}
	}
	switch {
	case attached != "":
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{attached}},
			}}},
		}
	case accelerators == spare:
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: without}},
		}
	case accelerators == indulge && r.wantsHardware() && r.Placement == v1alpha1.PlacementPreferHardware:
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: measured}},
			{Weight: 50, Preference: corev1.NodeSelectorTerm{MatchExpressions: discovered}},
		}
	}
	if len(r.Prefer) > 0 {
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = append(
			nodes.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 25, Preference: corev1.NodeSelectorTerm{MatchExpressions: selected(r.Prefer)}},
		)
	}
	if nodes.RequiredDuringSchedulingIgnoredDuringExecution == nil &&
		nodes.PreferredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &nodes}
}

// Beside returns the node that an affinity of Decide prefers because the claim's volume is in use there; empty if none.
func Beside(affinity *corev1.Affinity) string {
	if affinity == nil || affinity.NodeAffinity == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		for _, field := range term.Preference.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Avoids reports whether an affinity of Decide keeps the pod from all nodes whose accelerator is known to work.
func Avoids(affinity *corev1.Affinity) bool {
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	allows := func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == v1alpha1.DeflateLabel && r.Operator == corev1.NodeSelectorOpNotIn &&
				slices.Contains(r.Values, Hardware)
		})
	}
	return len(terms) > 0 && !slices.ContainsFunc(terms, allows)
}

// wantsHardware: the accelerator would do the agent's work. It does deflate alone, and which codec is spoken is most
// likely the first that the policy names.
func (r Request) wantsHardware() bool {
	switch {
	case r.Placement == v1alpha1.PlacementAnyNode, !r.Inflates && r.Mode == v1alpha1.CompressionNever:
		return false
	default:
		return len(r.Codecs) == 0 || r.Codecs[0] == v1alpha1.CodecDeflate
	}
}
