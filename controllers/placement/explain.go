// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// explain says why the agent is on the node, or, when that is empty, where it is expected to be.
func explain(r Request, f Facts, nodes []assessed, node string) v1alpha1.PlacementStatus {
	status := v1alpha1.PlacementStatus{Node: node}
	here := slices.IndexFunc(nodes, func(a assessed) bool { return a.name == node })
	if here >= 0 {
		status.Engine = nodes[here].engine
	}
	able := candidates(nodes)
	switch {
	case r.Placement == v1alpha1.PlacementAnyNode:
		status.Reason, status.Message = v1alpha1.PlacementReasonAnyNode, "the policy does not look at accelerators"
		return status
	case f.FreeSlots != nil && r.Inflates:
		status.Reason, status.Message = v1alpha1.PlacementReasonAnyNode, "slots of accelerators are for agents that compress"
		return status
	case !r.wantsHardware() && r.Placement == v1alpha1.PlacementPreferHardware:
		status.Reason, status.Message = indifferent(r)
		return status
	case here >= 0 && nodes[here].serves():
		status.Reason, status.Message = v1alpha1.PlacementReasonHardware, "the node has an accelerator that works"
	case node != "" && len(able) > 0:
		status.Reason = v1alpha1.PlacementReasonNoRoom
		status.Message = fmt.Sprintf(
			"the scheduler chose a node without an accelerator although %s could have been chosen; most often because its "+
				"resources are exhausted",
			names(able),
		)
	case r.Waits && len(able) > 0:
		status.Reason = v1alpha1.PlacementReasonNoRoom
		status.Message = fmt.Sprintf(
			"the scheduler does not place the agent beside the accelerator of %s, most often because its resources are "+
				"exhausted",
			names(able),
		)
	case len(able) > 0:
		status.Engine, status.Reason = EngineHardware, v1alpha1.PlacementReasonHardware
		status.Message = "the scheduler is asked for a node with an accelerator that works: " + names(able)
	default:
		status.Reason, status.Message = fallback(r, f, nodes)
	}
	status.Alternatives = alternatives(nodes, node, status.Reason)
	return status
}

// indifferent is why an accelerator would not do the work of an agent that prefers one.
func indifferent(r Request) (reason, message string) {
	if !r.Inflates && r.Mode == v1alpha1.CompressionNever {
		return v1alpha1.PlacementReasonAnyNode, "the policy compresses nothing, so an accelerator is of no use"
	}
	return v1alpha1.CompressionCodecNotAccelerated,
		fmt.Sprintf("the first of the policy's codecs is %s, which no accelerator does", r.Codecs[0])
}

// fallback is why no node with an accelerator can take the agent.
func fallback(r Request, f Facts, nodes []assessed) (reason, message string) {
	announced := slices.DeleteFunc(slices.Clone(nodes), func(a assessed) bool { return !a.announced })
	if len(announced) == 0 {
		return v1alpha1.CompressionNoAccelerator, "no node of the cluster has an accelerator that is known to work"
	}
	serving := slices.DeleteFunc(slices.Clone(announced), func(a assessed) bool { return !a.serves() })
	all := func(of []assessed, reason string) bool {
		return len(of) > 0 && !slices.ContainsFunc(of, func(a assessed) bool { return a.reason() != reason })
	}
	switch {
	case all(serving, v1alpha1.PlacementReasonClaimBound) && f.Attached != "":
		return v1alpha1.PlacementReasonClaimBound, fmt.Sprintf(
			"the volume of claim %q is in use on %s and can be used on one node at a time, which wins over the accelerator "+
				"of %s",
			f.Claim, f.Attached, names(serving))
	case all(serving, v1alpha1.PlacementReasonClaimBound):
		reachable := slices.DeleteFunc(slices.Clone(nodes), func(a assessed) bool {
			return a.obstacle == v1alpha1.PlacementReasonClaimBound
		})
		return v1alpha1.PlacementReasonClaimBound, fmt.Sprintf(
			"the volume of claim %q can be used on %s only, which wins over the accelerator of %s", f.Claim, names(reachable),
			names(serving))
	case r.Shun == v1alpha1.PlacementReasonNoRoom && len(busy(nodes)) > 0:
		return r.Shun, fmt.Sprintf(
			"the scheduler did not place the agent beside the accelerator of %s, most often because its resources are exhausted",
			names(busy(nodes)),
		)
	case len(busy(nodes)) > 0:
		return v1alpha1.PlacementReasonAcceleratorBusy, fmt.Sprintf(
			"as many agents as may share the accelerator of %s %s", names(busy(nodes)), presence(r, f),
		)
	case all(announced, v1alpha1.CompressionLevelNotAccelerated):
		return v1alpha1.CompressionLevelNotAccelerated, fmt.Sprintf(
			"the accelerator of %s does not compress at level %s%s", names(announced), r.Level, otherLevels(f, announced),
		)
	}
	var each []string
	for _, a := range announced[:min(len(announced), maxNamed)] {
		each = append(each, a.name+": "+a.words())
	}
	return v1alpha1.CompressionNoAccelerator, fmt.Sprintf(
		"no node with an accelerator can take the agent (%s%s)", strings.Join(each, "; "), more(announced),
	)
}

// presence is where the agents are that this one has no slot for.
func presence(r Request, f Facts) string {
	switch {
	case r.Shun != "":
		return "were there, or waited to be placed there, when this agent's pod was made"
	case !r.Waits && f.unused() > 0:
		return "are there, or wait to be placed there, already"
	default:
		return "are there already"
	}
}

// otherLevels are those at which all of the nodes' accelerators were measured.
func otherLevels(f Facts, nodes []assessed) string {
	var common []string
	for _, level := range []v1alpha1.CompressionLevel{
		v1alpha1.CompressionFast, v1alpha1.CompressionBalanced, v1alpha1.CompressionHigh,
	} {
		if !slices.ContainsFunc(nodes, func(a assessed) bool { return !accelerates(level, f.Profiles[a.name]) }) {
			common = append(common, string(level))
		}
	}
	if len(common) == 0 {
		return ""
	}
	return ", but does at " + strings.Join(common, " and ")
}

// obstacles say in words what speaks against a node.
var obstacles = map[string]string{
	v1alpha1.PlacementReasonNotSelected: "not of the class that is asked for",
	v1alpha1.PlacementReasonClaimBound: "the claim's volume cannot be used there, or not while it is in use " +
		"elsewhere",
	v1alpha1.PlacementReasonAcceleratorBusy: "as many agents as may share it are there, or wait to be placed there, " +
		"already",
	v1alpha1.PlacementReasonNoRoom: "the scheduler does not choose it, most often because its resources are " +
		"exhausted",
	v1alpha1.PlacementReasonCordoned: "cordoned",
	v1alpha1.PlacementReasonNotReady: "not ready",
	v1alpha1.PlacementReasonTainted: "has a taint that the agent does not tolerate, see " +
		"spec.podTemplate.tolerations",
	v1alpha1.PlacementReasonImageArchitecture: "the agent's image was not built for its architecture, see " +
		"image.architectures of the chart",
	v1alpha1.CompressionNoAccelerator:       "announced by Node Feature Discovery and not confirmed by the node agent",
	v1alpha1.CompressionSelfTestFailed:      "its use is not proved, see the NodeProfile",
	v1alpha1.CompressionLevelNotAccelerated: "does not compress at the policy's level",
}

// alternatives are the nodes that have, or are said to have, an accelerator, but for the one chosen.
func alternatives(nodes []assessed, chosen, reason string) []v1alpha1.PlacementAlternative {
	var list []v1alpha1.PlacementAlternative
	for _, a := range nodes {
		if !a.announced || a.name == chosen || len(list) == maxAlternatives {
			continue
		}
		why := a.reason()
		if why == v1alpha1.PlacementReasonEligible && reason == v1alpha1.PlacementReasonNoRoom {
			why = v1alpha1.PlacementReasonNoRoom
		}
		list = append(list, v1alpha1.PlacementAlternative{Node: a.name, Engine: a.engine, Reason: why})
	}
	return list
}

// names lists some of the nodes.
func names(nodes []assessed) string {
	if len(nodes) == 0 {
		return "no node of the cluster"
	}
	var list []string
	for _, a := range nodes[:min(len(nodes), maxNamed)] {
		list = append(list, a.name)
	}
	return strings.Join(list, ", ") + more(nodes)
}

func more(nodes []assessed) string {
	if len(nodes) <= maxNamed {
		return ""
	}
	return fmt.Sprintf(" and %d more", len(nodes)-maxNamed)
}
