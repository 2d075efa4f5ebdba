// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// sendPlacement is what is wanted for the agent that sends.
func sendPlacement(
	transfer *v1alpha1.Transfer, route v1alpha1.Route, resolved policy.Resolved, image AgentImage,
) placement.Request {
	var tolerations []corev1.Toleration
	if transfer.Spec.PodTemplate != nil {
		tolerations = transfer.Spec.PodTemplate.Tolerations
	}
	mode, place := resolved.Mode, resolved.Placement
	if route == v1alpha1.RoutePod && mode != v1alpha1.CompressionAlways {
		// Nothing is compressed where there is no network, so an accelerator has no use.
		mode, place = v1alpha1.CompressionNever, v1alpha1.PlacementAnyNode
	}
	return placement.Request{
		Placement: place,
		Mode:      mode,
		Codecs:    resolved.Codecs,
		Level:     resolved.Level,
		// In mode Auto the level is a ceiling, and an accelerator is used at the least effort that it has, since it
		// makes no difference to it.
		AnyLevel:         mode == v1alpha1.CompressionAuto,
		SoftwareDisabled: resolved.SoftwareDisabled,
		SoftwareEngines:  resolved.SoftwareEngines,
		Tolerations:      tolerations,
		Architectures:    image.Architectures,
	}
}

// receivePlacement is what is wanted for the agent that receives. Which codec arrives is agreed later.
func receivePlacement(image AgentImage) placement.Request {
	return placement.Request{
		Placement: v1alpha1.PlacementPreferHardware, Inflates: true, Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
		Architectures: image.Architectures,
	}
}

// placed is what status says of where an agent is: present, unless a node has been chosen that it does not know of yet.
func placed(
	present *v1alpha1.PlacementStatus, node string, explain func(node string) v1alpha1.PlacementStatus,
) *v1alpha1.PlacementStatus {
	if node == "" || present != nil && present.Node == node {
		return present
	}
	status := explain(node)
	status.Message = conditions.Shorten(status.Message)
	return &status
}

// expected is what status says before a node has been chosen.
func expected(where placement.Plan) *v1alpha1.PlacementStatus {
	status := where.Status
	status.Message = conditions.Shorten(status.Message)
	return &status
}

// waiting plans again an agent whose pod the scheduler finds no node for, by what that pod asks for.
func waiting(request placement.Request, facts placement.Facts, job *batchv1.Job) placement.Plan {
	request.Waits = true
	return placement.Decide(request, asPlanned(facts, job))
}

// unplaced is what keeps such a pod from a node, in the words of status.placement where it has any, and in the
// scheduler's.
func unplaced(where placement.Plan, scheduler *Problem) *Problem {
	if where.Blocked == nil {
		return scheduler
	}
	return &Problem{where.Blocked.Reason, where.Blocked.Message + "; " + scheduler.Message}
}

// asPlanned are the facts of a cluster with the volume in use where it was when the Job was made: its own pod's use
// says nothing of what it was planned by.
func asPlanned(facts placement.Facts, job *batchv1.Job) placement.Facts {
	if job != nil {
		facts.Attached = placement.Beside(job.Spec.Template.Spec.Affinity)
	}
	return facts
}

// hasSlot reports whether the Job's pod asks for a slot of an accelerator.
func hasSlot(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		_, asked := c.Resources.Requests[v1alpha1.AcceleratorSlotsResource]
		return asked
	})
}

// NeedsPlacement reports whether a decision about an agent with that run and placement looks at nodes: always, unless
// the agent has been placed.
func NeedsPlacement(run *v1alpha1.RunStatus, present *v1alpha1.PlacementStatus) bool {
	return run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil || present == nil || present.Node == ""
}

// TransferWaitsForNode reports whether an attempt has no node yet, or cannot begin for want of one, so that a change of
// nodes or of a volume may help.
func TransferWaitsForNode(transfer *v1alpha1.Transfer) bool {
	switch transfer.Status.Phase {
	case v1alpha1.TransferPending, v1alpha1.TransferStarting, v1alpha1.TransferRetrying:
		return NeedsPlacement(transfer.Status.Run, transfer.Status.Placement)
	}
	return false
}

// TrialWaits reports whether the agent has no node yet, or there is none, so that a change of what the trial is about
// may help.
func TrialWaits(trial *v1alpha1.CompressionTrial) bool {
	switch trial.Status.Phase {
	case v1alpha1.TrialComplete, v1alpha1.TrialFailed, v1alpha1.TrialMeasuring:
		return false
	}
	return NeedsPlacement(trial.Status.Run, trial.Status.Placement)
}
