// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	// triggerDeadline is how long an attempt waits for a trigger.
	triggerDeadline = 10 * time.Minute
	// maxTrigger bounds what is kept of an annotation, in bytes.
	maxTrigger = 63
)

// CopyTold is what the annotations of a claim are to say of its copy.
type CopyTold struct {
	State v1alpha1.CopyTriggerState
	// Trigger that has been served; empty: as it is.
	Trigger string
}

// usableTrigger is the trigger of a claim; empty if it has none, or one that is too long.
func usableTrigger(annotations map[string]string) string {
	if value := annotations[v1alpha1.CopyTriggerAnnotation]; len(value) <= maxTrigger {
		return value
	}
	return ""
}

// triggerForCopy reports whether the copy may be made. The time before does not count against its deadline.
func (d *transferDecision) triggerForCopy(s *v1alpha1.StagedStatus) bool {
	status, run, source := &d.transfer.Status, d.transfer.Status.Run, d.facts.Staging.Source
	c := status.CopyTrigger
	_, asked := source.Annotations[v1alpha1.UseCopyTriggerAnnotation]
	switch {
	case !asked:
		// Nobody waits for an answer, and the policy forbids one.
		status.CopyTrigger = nil
	case c != nil && c.Told != c.State && (c.RunID != run.ID || c.Attempt != run.Attempt):
		d.awaiting(time.Millisecond) // how an earlier one ended
		return false
	case c == nil, c.RunID != run.ID, c.Attempt != run.Attempt,
		c.State != v1alpha1.CopyWaitingForTrigger && c.State != v1alpha1.CopyInProgress:
		// The status is written before the claim is, so that another manager goes on with the same wait.
		status.CopyTrigger = &v1alpha1.CopyTriggerStatus{
			RunID: run.ID, Attempt: run.Attempt, State: v1alpha1.CopyWaitingForTrigger,
			Former: usableTrigger(source.Annotations), StartTime: metav1.NewTime(d.facts.Now),
		}
		d.awaiting(time.Millisecond)
		return false
	case c.State == v1alpha1.CopyWaitingForTrigger:
		d.await(c, usableTrigger(source.Annotations))
		return false
	case c.State == v1alpha1.CopyInProgress && c.Told != c.State:
		d.awaiting(time.Millisecond)
		return false
	}
	if s.State == v1alpha1.StagedPreparing {
		s.StartTime = metav1.NewTime(d.facts.Now)
	}
	return true
}

// await goes on when there is a trigger, or it is too late for one.
func (d *transferDecision) await(c *v1alpha1.CopyTriggerStatus, trigger string) {
	waited := d.facts.Now.Sub(c.StartTime.Time)
	switch {
	case c.Told == c.State && trigger != "" && trigger != c.Former:
		c.State, c.Trigger = v1alpha1.CopyInProgress, trigger
		d.awaiting(time.Millisecond)
	case waited >= triggerDeadline:
		d.failStaging(agentpod.Problem{Reason: v1alpha1.ReasonCopyTriggerTimedOut, Message: fmt.Sprintf(
			"the annotation %s of claim %q did not get another value of 1 to %d bytes within %s, so nothing was copied; look "+
				"at what sets it, or remove the annotation %s from the claim", v1alpha1.CopyTriggerAnnotation,
			d.facts.Staging.Source.Name, maxTrigger, triggerDeadline, v1alpha1.UseCopyTriggerAnnotation)})
	default:
		d.awaiting(min(max(waited/8, hookFirst), hookLast, triggerDeadline-waited))
	}
}

func (d *transferDecision) awaiting(again time.Duration) {
	d.out.RequeueAfter = again
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonWaitingForTrigger, fmt.Sprintf(
		"give the annotation %s of claim %q another value of 1 to %d bytes when it may be copied",
		v1alpha1.CopyTriggerAnnotation, d.facts.Staging.Source.Name, maxTrigger)))
}

// failTrigger ends the wait for a trigger, or for its copy, that will not be made.
func (d *transferDecision) failTrigger() {
	c := d.transfer.Status.CopyTrigger
	if c != nil && (c.State == v1alpha1.CopyWaitingForTrigger || c.State == v1alpha1.CopyInProgress) {
		c.State = v1alpha1.CopyFailed
	}
}

// settleTrigger notes what became of the copy, and has the claim say what it does not yet.
func (d *transferDecision) settleTrigger() {
	status := &d.transfer.Status
	c := status.CopyTrigger
	if c == nil {
		return
	}
	current := status.Run != nil && c.RunID == status.Run.ID
	read := d.mounted() || status.Phase == v1alpha1.TransferComplete
	switch {
	case c.State == v1alpha1.CopyInProgress && current && (read || d.running() && d.copied()):
		c.State = v1alpha1.CopyCompleted
	case !current, !d.running(), d.waiting():
		d.failTrigger()
	}
	if d.out.Tell = toldOf(c); d.out.Tell != nil {
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, time.Millisecond)
	}
}

// toldOf is what the claim does not say yet; nil: nothing.
func toldOf(c *v1alpha1.CopyTriggerStatus) *CopyTold {
	if c.Told == c.State {
		return nil
	}
	told := &CopyTold{State: c.State}
	if c.State == v1alpha1.CopyCompleted {
		told.Trigger = c.Trigger
	}
	return told
}

// Told decides what follows when the claim says what it was to say.
func Told(transfer *v1alpha1.Transfer, told *CopyTold) TransferDecision {
	status := *transfer.Status.DeepCopy()
	if c := status.CopyTrigger; c != nil {
		c.Told = told.State
	}
	return TransferDecision{Status: status}
}

// ReleaseTrigger is what the claim of a Transfer that is being deleted is still to say; nil: nothing.
func ReleaseTrigger(transfer *v1alpha1.Transfer) *CopyTold {
	d := &transferDecision{transfer: transfer.DeepCopy()}
	c := d.transfer.Status.CopyTrigger
	if c == nil {
		return nil
	}
	d.failTrigger()
	return toldOf(c)
}
