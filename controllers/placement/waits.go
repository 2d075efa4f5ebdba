// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// required is what an agent that needs the accelerator waits for, with what would remedy it besides doing without.
func required(r Request, status v1alpha1.PlacementStatus, remedies ...string) *Blocked {
	asker := cmp.Or(r.Asker, "placement RequireHardware")
	remedies = append(remedies, cmp.Or(r.WayOut, "choose PreferHardware to run without one"))
	return &Blocked{
		Reason:  status.Reason,
		Message: asker + " waits for a node with an accelerator: " + status.Message + "; " + strings.Join(remedies, ", or "),
	}
}

// waits is what an agent waits for whose pod is there and that the scheduler finds no node for. It says what
// status.placement says, and the remedy. It is nil where accelerators have no part in it, and the scheduler's words are
// all that there is to say.
func waits(r Request, plan Plan) *Blocked {
	status, full := plan.Status, plan.Status.Reason == v1alpha1.PlacementReasonNoRoom
	const turn = "it goes on when one of them ends"
	remedy := "free resources there"
	if !r.Inflates {
		remedy += ", or let the agent ask for less (spec.podTemplate.resources)"
	}
	var message string
	switch {
	case !full && status.Reason != v1alpha1.PlacementReasonAcceleratorBusy:
		return nil
	case r.Placement == v1alpha1.PlacementRequireHardware && full:
		return required(r, status, remedy)
	case r.Placement == v1alpha1.PlacementRequireHardware:
		return required(r, status, turn)
	case full:
		message = ", nor on another node; " + remedy
	case plan.Slot:
		message = ", and no other node can take this one; " + turn
	default:
		message = ", and the scheduler finds no other node; " + remedy + "; if one of them ends, the agent is placed again"
	}
	return &Blocked{Reason: v1alpha1.ReasonUnschedulable, Message: status.Message + message}
}
