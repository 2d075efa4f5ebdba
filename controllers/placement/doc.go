// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides on which nodes an agent may and should run, and says why. It is pure: it is given what is
// wanted and what the nodes are like, and returns an affinity for the agent's pod and an explanation for status. The
// scheduler chooses the node; space, quotas and volume topology stay its business.
package placement

import (
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// EngineHardware is the name of the engine that uses the accelerator.
	EngineHardware = "dfltcc"
	// EngineNone is what compresses where nothing does.
	EngineNone = "none"

	// Hardware is the value of the label v1alpha1.DeflateLabel on nodes whose accelerator is known to work.
	Hardware = "hardware"
	// Software is its value on all others that are known.
	Software = "software"

	// maxAlternatives is what the API allows.
	maxAlternatives = 8
	// maxNamed is how many nodes a message names.
	maxNamed = 5
)

// Request is what is wanted for one agent.
type Request struct {
	Placement v1alpha1.Placement
	// Inflates: the agent receives, so that Mode, Level and SoftwareEngines mean nothing and the engine of interest is
	// that which inflates.
	Inflates bool
	Mode     v1alpha1.CompressionMode
	// Codecs in order of preference.
	Codecs []v1alpha1.Codec
	Level  v1alpha1.CompressionLevel
	// AnyLevel: the accelerator is used at whatever level it has, and Level is for software.
	AnyLevel         bool
	SoftwareDisabled bool
	// SoftwareEngines in order of preference; empty when the agent chooses by measurement.
	SoftwareEngines []v1alpha1.SoftwareEngine
	// Tolerations of the agent's pod.
	Tolerations []corev1.Toleration
	// Architectures that the agent's image was built for, as Go names them; empty when that is not known.
	Architectures []string
	// Selector names labels that the node must have.
	Selector map[string]string
	// Prefer names labels that the node is to have if one of them has free space, and nothing else decides.
	Prefer map[string]string
	// AvoidHardware: nodes with an accelerator that is known to work are out of the question.
	AvoidHardware bool
	// Shun is why accelerators are out of the question although their nodes could take the agent: AcceleratorBusy, or
	// NoRoom when the scheduler found none beside them. Empty when they are not.
	Shun string
	// Waits: the agent's pod is there, asks for what was decided, and the scheduler finds no node for it.
	Waits bool
	// Asker is what requires the accelerator, and WayOut how to do without one, for messages: in the imperative. They
	// default to the placement of a CompressionPolicy.
	Asker, WayOut string
}

// Facts are what was seen of the cluster. They are shared, and nothing in this package or in package plan changes them.
type Facts struct {
	// Nodes of the cluster, best in the order of their names; of each only name, labels, spec and the condition Ready
	// are looked at.
	Nodes []corev1.Node
	// Profiles that the node agents filled, by the name of the node.
	Profiles map[string]v1alpha1.NodeProfileStatus
	// Claim that the agent mounts, for messages; empty when it mounts none.
	Claim string
	// Volume says from which nodes the claim's volume can be reached; nil: from all.
	Volume *corev1.NodeSelector
	// Attached is the node that the claim's volume is in use on, where it can be in use on one only; empty when it is
	// not.
	Attached string
	// FreeSlots says, by the name of the node, how many more agents than are there may be placed there for its
	// accelerator; nil: any number.
	FreeSlots map[string]int64
	// AwaitedSlots is how many agents ask for a slot and wait for the scheduler to place them.
	AwaitedSlots int64
}

// Blocked is why an agent cannot be placed now.
type Blocked struct {
	// Reason is one of status.placement where the agent needs the accelerator, otherwise Unschedulable.
	Reason string
	// Message says what speaks against which node and what to do.
	Message string
}

// Plan is where an agent is to run.
type Plan struct {
	// Affinity of the agent's pod; nil when every node will do.
	Affinity *corev1.Affinity
	// Slot: the agent is placed for the accelerator, of which there are only so many slots. Its container must ask for
	// one.
	Slot bool
	// Status says what is expected; Explain says what became of it.
	Status v1alpha1.PlacementStatus
	// Blocked is set when the accelerator is required and no node that has one can take the agent. A pod would wait for
	// ever, so none should be made; a change of a Node is when to look again. For a pod that waits for space it is what
	// it waits for.
	Blocked *Blocked
}

// Decide plans where an agent is to run.
func Decide(r Request, f Facts) Plan {
	nodes := assessAll(r, f)
	plan := Plan{Slot: wantsSlot(r, f, nodes), Status: explain(r, f, nodes, "")}
	plan.Affinity = affinity(r, avoidanceOf(r, f, plan.Slot), f.Attached)
	// One that only waits for a slot is left to the scheduler, which has a queue.
	switch {
	case r.Placement == v1alpha1.PlacementRequireHardware && len(candidates(nodes)) == 0 && len(busy(nodes)) == 0:
		plan.Blocked = required(r, plan.Status)
	case r.Waits:
		plan.Blocked = waits(r, plan)
	}
	return plan
}

// Explain says where an agent runs and why, given the node that the scheduler has chosen.
func Explain(r Request, f Facts, node string) v1alpha1.PlacementStatus {
	return explain(r, f, assessAll(r, f), node)
}
