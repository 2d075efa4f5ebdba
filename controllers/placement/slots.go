// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Resources are what the agent's container must ask for besides its own; nil if nothing.
func (p Plan) Resources() corev1.ResourceList {
	if !p.Slot {
		return nil
	}
	return corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: *resource.NewQuantity(1, resource.DecimalSI)}
}

// counted: the agent is one of those that are placed for the accelerator, and those are counted.
func (r Request) counted(f Facts) bool {
	if f.FreeSlots == nil || r.Inflates {
		return false
	}
	return r.Placement == v1alpha1.PlacementRequireHardware ||
		r.Placement == v1alpha1.PlacementPreferHardware && r.wantsHardware()
}

// wantsSlot: the agent asks for a slot. One that prefers the accelerator does so only where there is one to be had, or
// where every node that could take it has an accelerator.
func wantsSlot(r Request, f Facts, nodes []assessed) bool {
	if !r.counted(f) {
		return false
	}
	elsewhere := slices.ContainsFunc(nodes, func(a assessed) bool { return !a.serves() && a.obstacle == "" })
	return r.Placement == v1alpha1.PlacementRequireHardware || len(candidates(nodes)) > 0 ||
		len(busy(nodes)) > 0 && !elsewhere
}

// promised: no slot is left for the agent, as others wait for all of them. One whose pod is there already takes its
// turn with those; a new one comes after them, and they may go to any node.
func (r Request) promised(f Facts) bool {
	return !r.Waits && f.unused() <= f.AwaitedSlots
}

// unused are the slots of all nodes that no agent is there for. A node may have more agents than slots, which takes
// none from others.
func (f Facts) unused() int64 {
	var sum int64
	for _, free := range f.FreeSlots {
		sum += max(free, 0)
	}
	return sum
}

// busy are the nodes that could take the agent, had they a slot, or space beside the accelerator.
func busy(nodes []assessed) []assessed {
	return slices.DeleteFunc(slices.Clone(nodes), func(a assessed) bool { return !a.serves() || !a.isBusy() })
}

// isBusy: the obstacle is one that goes when other agents do.
func (a assessed) isBusy() bool {
	return a.obstacle == v1alpha1.PlacementReasonAcceleratorBusy || a.obstacle == v1alpha1.PlacementReasonNoRoom
}

// avoidance of accelerators by an agent without a slot.
type avoidance int

const (
	// indulge: there is no cap, or the agent has a slot.
	indulge avoidance = iota
	// spare: other nodes are better, and where there are none it does not matter.
	spare
	// avoid: other nodes only.
	avoid
)

func avoidanceOf(r Request, f Facts, slot bool) avoidance {
	switch {
	case f.FreeSlots == nil || slot:
		return indulge
	case r.counted(f):
		return avoid
	default:
		return spare
	}
}
