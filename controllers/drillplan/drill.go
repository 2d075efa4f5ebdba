// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drillplan decides when a Drill restores, by which Transfer, and what that proves. Like plan it is pure.
package drillplan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// maxHistory is what the API allows.
	maxHistory = 10
	// defaultDeadline is that of the API.
	defaultDeadline = 6 * time.Hour
	// removalPause is how soon to look again for a Transfer that is being removed. Events come first.
	removalPause = 10 * time.Second
)

// passing are the reasons for which a Transfer is Stalled that may pass by themselves, as when a node is added. For all
// others a drill ends at once.
var passing = []string{v1alpha1.ReasonUnschedulable, v1alpha1.ReasonAgentNotStarted}

// hopeless are the reasons of attempts that the next one would end for, too: it reads the same copy into a volume of
// the same size.
var hopeless = []string{v1alpha1.ReasonDestinationFull, v1alpha1.ReasonInvalidData}

// Facts are what was seen.
type Facts struct {
	Now time.Time
	// NewID is that of the next drill, should one begin.
	NewID string
	// Transfer of the name that TransferName returns; nil when there is none.
	Transfer *v1alpha1.Transfer
}

// Decision is what to do.
type Decision struct {
	// Status to write, before anything is made or removed.
	Status v1alpha1.DrillStatus
	// Create is the Transfer that must exist, Remove one that must not; nil: none.
	Create, Remove *v1alpha1.Transfer
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// Decide is the heart of the Drill controller. It does not change its arguments.
func Decide(drill *v1alpha1.Drill, facts Facts) Decision {
	d := &decision{drill: drill.DeepCopy(), facts: facts}
	spec, status := &d.drill.Spec, &d.drill.Status
	table := plan.Keep(spec.Schedule, drill.UID, status.Schedule, spec.Suspend, d.underWay(), facts.Now)
	status.Schedule = table.Status
	asked := drill.Annotations[v1alpha1.RunAnnotation]
	wanted := table.Due || asked != "" && asked != status.LastRunRequest || status.Run == nil && spec.Schedule == nil
	switch {
	case d.underWay():
		d.follow()
	case table.Problem != nil:
		d.set(conditions.Stalled(table.Problem.Reason, table.Problem.Message))
	case wanted && !spec.Suspend:
		status.LastRunRequest = asked
		status.Run = &v1alpha1.DrillRecord{ID: facts.NewID, StartTime: metav1.NewTime(facts.Now)}
		status.TransferName = TransferName(drill)
		d.follow()
	case status.Run != nil:
		d.set(verdict(*status.Run))
	case spec.Suspend:
		d.set(conditions.Resting(v1alpha1.ReasonSuspended,
			"no drill starts while spec.suspend is true; set it to false to start them"))
	default:
		d.set(conditions.Ready(v1alpha1.ReasonScheduled, fmt.Sprintf(
			"the first drill starts at %s", status.Schedule.NextTime.UTC().Format(time.RFC3339))))
	}
	if t := facts.Transfer; owns(drill, t) && t.DeletionTimestamp == nil && !d.present(t) {
		d.out.Remove = t
	}
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, plan.UntilNext(status.Schedule, facts.Now))
	d.out.Status = *status
	d.out.Status.ObservedGeneration = drill.Generation
	return d.out
}

// decision is one decision in the making; drill is a copy whose status becomes the result.
type decision struct {
	drill *v1alpha1.Drill
	facts Facts
	out   Decision
}

func (d *decision) underWay() bool {
	run := d.drill.Status.Run
	return run != nil && run.CompletionTime == nil
}

// present reports whether a Transfer is that of the drill under way.
func (d *decision) present(t *v1alpha1.Transfer) bool {
	return d.underWay() && t.Labels[v1alpha1.RunLabel] == d.drill.Status.Run.ID
}

// owns reports whether the manager has made a Transfer for a Drill.
func owns(drill *v1alpha1.Drill, t *v1alpha1.Transfer) bool {
	return t != nil && t.Labels[v1alpha1.DrillLabel] == string(drill.UID) && metav1.IsControlledBy(t, drill)
}

// follow looks after the drill that status names.
func (d *decision) follow() {
	t, run := d.facts.Transfer, d.drill.Status.Run
	deadline := defaultDeadline
	if d.drill.Spec.Deadline != nil {
		deadline = d.drill.Spec.Deadline.Duration
	}
	left := run.StartTime.Add(deadline).Sub(d.facts.Now)
	switch {
	case t != nil && !owns(d.drill, t):
		d.end(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"Transfer %q is there, and is not of this Drill; delete it, or create the Drill under another name", t.Name))
		return
	case left <= 0:
		d.expire(deadline)
		return
	case t == nil:
		d.out.Create = Transfer(d.drill)
		if !conditions.Refused(d.drill.Status.Conditions) { // What they say stays until the Transfer is there.
			d.set(conditions.Reconciling(v1alpha1.ReasonDrilling, fmt.Sprintf(
				"drill %s: its Transfer is being created", run.ID)))
		}
	case t.DeletionTimestamp != nil || !d.present(t):
		d.set(conditions.Reconciling(v1alpha1.ReasonDrilling, fmt.Sprintf(
			"drill %s: Transfer %q of an earlier one is being removed", run.ID, t.Name)))
		left = min(left, removalPause)
	case meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionComplete):
		d.judge()
		return
	default:
		if reason, message := failed(t); reason != "" {
			d.fill(t)
			d.end(reason, message)
			return
		}
		d.set(conditions.Reconciling(v1alpha1.ReasonDrilling, fmt.Sprintf("drill %s: %s", run.ID, said(t))))
	}
	d.out.RequeueAfter = left
}

// said is what a Transfer says of itself.
func said(t *v1alpha1.Transfer) string {
	ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return fmt.Sprintf("Transfer %q has not been looked at yet", t.Name)
	}
	return fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
}

// failed is why a Transfer will not restore the copy; the reason is empty while it may.
func failed(t *v1alpha1.Transfer) (reason, message string) {
	ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != t.Generation {
		return "", ""
	}
	if len(t.Status.History) > 0 {
		last := t.Status.History[0]
		if slices.Contains(hopeless, last.Reason) {
			message = last.Message
			// A scrub has no volume; what its agent says can be anything.
			if volume := t.Spec.Destination.Ephemeral; volume != nil && last.Reason == v1alpha1.ReasonDestinationFull {
				message = fmt.Sprintf("the volume of %s is too small for the copy (%s); raise spec.volume.size",
					volume.Size, last.Message)
			}
			return last.Reason, message
		}
		if ready.Reason == v1alpha1.ReasonMaxAttemptsReached {
			return last.Reason, ready.Message
		}
	}
	stalled := meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionStalled)
	if meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionFailed) ||
		stalled && !slices.Contains(passing, ready.Reason) {
		return ready.Reason, ready.Message
	}
	return "", ""
}

// expire ends a drill whose deadline has passed.
func (d *decision) expire(deadline time.Duration) {
	waited := "its Transfer could not be created"
	if ready := meta.FindStatusCondition(d.drill.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		waited = ready.Message
	}
	if t := d.facts.Transfer; t != nil {
		waited = said(t)
		d.fill(t)
	}
	d.end(v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf(
		"the drill did not end within %s (spec.deadline); at last: %s", deadline, waited))
}

// set sets the conditions.
func (d *decision) set(wanted []metav1.Condition) {
	status := &d.drill.Status
	status.Conditions = conditions.Merge(status.Conditions, wanted, d.drill.Generation, d.facts.Now)
}

// succeeded reports whether a reason is that of a drill which proved what it was to.
func succeeded(reason string) bool {
	return reason == v1alpha1.ReasonRecovered || reason == v1alpha1.ReasonVerified
}

// verdict is the conditions after a drill.
func verdict(run v1alpha1.DrillRecord) []metav1.Condition {
	recovered := succeeded(run.Reason)
	state := conditions.Stalled
	if recovered {
		state = conditions.Ready
	}
	return append(state(run.Reason, run.Message),
		conditions.New(v1alpha1.ConditionRecoverable, recovered, run.Reason, run.Message))
}

// end ends the drill under way.
func (d *decision) end(reason, message string) {
	status := &d.drill.Status
	run := status.Run
	if run.CompletionTime == nil {
		now := metav1.NewTime(d.facts.Now)
		run.CompletionTime = &now
	}
	run.Reason, run.Message = reason, conditions.Shorten(message)
	run.Duration = &metav1.Duration{Duration: max(run.CompletionTime.Sub(run.StartTime.Time), 0)}
	status.TransferName = ""
	if succeeded(reason) {
		status.LastRecoverableTime = run.CompletionTime.DeepCopy()
	}
	status.History = append([]v1alpha1.DrillRecord{*run.DeepCopy()}, status.History...)
	status.History = status.History[:min(len(status.History), maxHistory)]
	d.set(verdict(*run))
}
