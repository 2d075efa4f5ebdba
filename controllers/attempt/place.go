// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	batchv1 "k8s.io/api/batch/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
)

// Placed is what status says of where an agent is: present, unless a node has been chosen that it does not know of yet.
func Placed(
	present *v1alpha1.PlacementStatus, node string, explain func(node string) v1alpha1.PlacementStatus,
) *v1alpha1.PlacementStatus {
	if node == "" || present != nil && present.Node == node {
		return present
	}
	status := explain(node)
	status.Message = conditions.Shorten(status.Message)
	return &status
}

// Expected is what status says before a node has been chosen.
func Expected(where placement.Plan) *v1alpha1.PlacementStatus {
	status := where.Status
	status.Message = conditions.Shorten(status.Message)
	return &status
}

// Waiting plans again an agent whose pod the scheduler finds no node for, by what that pod asks for.
func Waiting(request placement.Request, facts placement.Facts, job *batchv1.Job) placement.Plan {
	request.Waits = true
	return placement.Decide(request, AsPlanned(facts, job))
}

// Unplaced is what keeps such a pod from a node, in the words of status.placement where it has any, and in the
// scheduler's.
func Unplaced(where placement.Plan, scheduler *agentpod.Problem) *agentpod.Problem {
	if where.Blocked == nil {
		return scheduler
	}
	return &agentpod.Problem{Reason: where.Blocked.Reason, Message: where.Blocked.Message + "; " + scheduler.Message}
}

// AsPlanned are the facts of a cluster with the volume in use where it was when the Job was made: its own pod's use
// says nothing of what it was planned by.
func AsPlanned(facts placement.Facts, job *batchv1.Job) placement.Facts {
	if job != nil {
		facts.Attached = placement.Beside(job.Spec.Template.Spec.Affinity)
	}
	return facts
}

// NeedsPlacement reports whether a decision about an agent with that run and placement looks at nodes: always, unless
// the agent has been placed.
func NeedsPlacement(run *v1alpha1.RunStatus, present *v1alpha1.PlacementStatus) bool {
	return run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil || present == nil || present.Node == ""
}
