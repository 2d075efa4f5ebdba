// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// slotPatience is how long a pod that prefers an accelerator waits for a slot of one that was free when it was
	// planned.
	slotPatience = 15 * time.Second
	// maxSlotDoublings is how often slotPatience is doubled at most before a pod that waits for space elsewhere is
	// planned again: to 8 minutes.
	maxSlotDoublings = 5
)

// fallBack starts again, without a slot of an accelerator, an attempt that only prefers one and that the scheduler has
// no space for beside it. Without a slot the scheduler falls back by itself.
func (d *transferDecision) fallBack(state attempt.State) bool {
	request := d.placement()
	if request.Placement != v1alpha1.PlacementPreferHardware || !hasSlot(d.facts.Job) ||
		d.facts.Now.Sub(state.Since) < slotPatience {
		return false
	}
	shun := v1alpha1.PlacementReasonAcceleratorBusy
	if attempt.Waiting(request, d.facts.Placement, d.facts.Job).Status.Reason == v1alpha1.PlacementReasonNoRoom {
		shun = v1alpha1.PlacementReasonNoRoom
	}
	request.Shun = shun
	where := placement.Decide(request, d.facts.Placement)
	if where.Slot {
		return false // there is no other node
	}
	d.transfer.Status.Run.Attempt++
	d.forgetAttempt()
	d.start(policy.Kept(d.transfer.Status.Policy), where)
	return true
}

// comeBack starts again an attempt that prefers an accelerator, was planned when none had a slot left, and that the
// scheduler has no space for on the other nodes, once there is a slot, or no other node. Each time it waits longer, in
// case there is no space beside the accelerator either.
func (d *transferDecision) comeBack(state attempt.State) bool {
	request, run := d.placement(), d.transfer.Status.Run
	if request.Placement != v1alpha1.PlacementPreferHardware || request.Shun == "" ||
		d.facts.Now.Sub(state.Since) < d.slotPatience() {
		return false
	}
	request.Shun = ""
	where := placement.Decide(request, d.facts.Placement)
	if placement.Avoids(where.Affinity) {
		return false
	}
	run.Attempt++
	d.forgetAttempt()
	d.start(policy.Kept(d.transfer.Status.Policy), where)
	return true
}

// slotPatience is how long such an attempt waits for the scheduler.
func (d *transferDecision) slotPatience() time.Duration {
	run := d.transfer.Status.Run
	return slotPatience << min(max(run.Attempt-d.lastEnded()-1, 0), maxSlotDoublings)
}
