// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// steady is by how much, and by which part of the time until then, a forecast must change to be shown.
	steady     = time.Minute
	steadyPart = 20
)

// Deadline is when a run is to be complete that is wanted since a time.
func Deadline(deadline *v1alpha1.TransferDeadline, wanted time.Time) time.Time {
	if deadline.Time != nil {
		return deadline.Time.Time
	}
	return wanted.Add(deadline.Within.Duration)
}

// validateDeadline checks again what the API server checks.
func validateDeadline(spec v1alpha1.TransferSpec) error {
	const field = "spec.deadline"
	deadline := spec.Deadline
	switch {
	case deadline == nil:
		return nil
	case (deadline.Time != nil) == (deadline.Within != nil):
		return &policy.InvalidError{Field: field, Fix: "must have exactly one of within and time"}
	case len(spec.Destinations) > 0:
		return &policy.InvalidError{Field: field, Fix: "is for one destination; remove it, or make a Transfer for each " +
			"destination"}
	case deadline.Time != nil && spec.Schedule != nil && spec.Schedule.Cron != "":
		return &policy.InvalidError{Field: field + ".time", Fix: "is one time; with spec.schedule.cron use within"}
	case deadline.Within != nil && (deadline.Within.Duration < time.Minute || deadline.Within.Duration > deadlineplan.Horizon):
		return &policy.InvalidError{Field: field + ".within", Fix: fmt.Sprintf("must be between 1m and 8784h, not %s",
			deadline.Within.Duration)}
	case !slices.Contains([]v1alpha1.DeadlineStrategy{"", v1alpha1.DeadlineSoonest, v1alpha1.DeadlineCheapest},
		deadline.Strategy):
		return &policy.InvalidError{Field: field + ".strategy", Fix: fmt.Sprintf("must be Soonest or Cheapest, not %q",
			deadline.Strategy)}
	case deadline.Strategy == v1alpha1.DeadlineCheapest && spec.Source.Peer != "":
		return &policy.InvalidError{Field: field + ".strategy", Fix: "must not be Cheapest with spec.source.peer: the other " +
			"cluster pays for what is sent; write Soonest"}
	}
	return nil
}

// wanted is since when the run is wanted that is under way, or that nothing but a wait keeps from beginning.
func (d *transferDecision) wanted() time.Time {
	id, kept := "", d.transfer.Status.Deadline
	if d.running() {
		id = d.transfer.Status.Run.ID
	}
	since := d.facts.Now
	switch {
	case !d.dueTime.IsZero(): // only where none was under way or awaited
		since = d.dueTime
	case kept != nil && kept.StartTime != nil && (kept.RunID == id || kept.RunID == ""):
		since = kept.StartTime.Time
	case id != "" && d.transfer.Status.Run.StartTime != nil:
		since = d.transfer.Status.Run.StartTime.Time
	}
	if since.After(d.facts.Now) {
		return d.facts.Now // the clock was set back
	}
	return since
}

// awaited: a run is wanted and has not begun, be it that the Transfer was suspended or paused while it waited.
func (d *transferDecision) awaited() bool {
	spec, status := &d.transfer.Spec, &d.transfer.Status
	if d.pending() {
		return true
	}
	resting := status.Phase == v1alpha1.TransferSuspended && spec.Suspend ||
		status.Phase == v1alpha1.TransferPaused && spec.Pause
	if d.running() || !resting {
		return false
	}
	// The phase of a run that has ended stays through a rest, unless another run was awaited after it.
	kept := status.Deadline
	return status.Run != nil || kept != nil && kept.RunID == "" && kept.StartTime != nil
}

// settled reports whether a status says how a run was Complete: it alone has a slack without a forecast.
func settled(kept *v1alpha1.DeadlineStatus) bool {
	return kept != nil && kept.RunID != "" && kept.Slack != nil && kept.PredictedTime == nil
}

// ofTime reports whether a status is of the time in spec.deadline, in whole seconds as the API server keeps it.
func ofTime(kept *v1alpha1.DeadlineStatus, deadline *v1alpha1.TransferDeadline) bool {
	return kept != nil && deadline.Time != nil && kept.Time.Time.Equal(deadline.Time.Truncate(time.Second))
}

// hurry has a run that begins minimise its time, if it would end too late with the objective of its policy. One whose
// forecast is of a run that was hurried is hurried as well, unless it would be in time if it took twice as long. None
// is hurried for a deadline that has passed, or that a run has settled.
func (d *transferDecision) hurry(resolved policy.Resolved) policy.Resolved {
	deadline, kept := d.transfer.Spec.Deadline, d.transfer.Status.Deadline
	if deadline == nil || resolved.Objective == v1alpha1.ObjectiveElapsed ||
		settled(kept) && ofTime(kept, deadline) {
		return resolved
	}
	by := Deadline(deadline, d.wanted())
	if !d.facts.Now.Before(by) {
		return resolved
	}
	last := lastRun(d.transfer.Status.History, d.transfer.Status.Run.ID)
	if last.active <= 0 {
		return resolved
	}
	work := deadlineplan.Work{Active: last.active, WireBytes: last.wire}
	if kept != nil && kept.Hurried {
		work.Active, work.WireBytes = 2*work.Active, addBytes(work.WireBytes, work.WireBytes)
	}
	end, ok := deadlineplan.Forecast(&d.transfer.Spec, work, d.facts.Now)
	if !ok || end.After(by) {
		resolved.Objective, d.hurried = v1alpha1.ObjectiveElapsed, true
	}
	return resolved
}

// watchDeadline shows when the run is expected to end, and whether that is in time.
func (d *transferDecision) watchDeadline() {
	status := &d.transfer.Status
	if d.transfer.Spec.Deadline == nil || validateDeadline(d.transfer.Spec) != nil {
		status.Deadline = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionWithinDeadline)
		return
	}
	condition := d.expect()
	if condition == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionWithinDeadline)
		return
	}
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{*condition}, d.transfer.Generation, d.facts.Now,
	)
}

// expect brings status.deadline up to date and returns the condition for it; nil: no run is wanted.
func (d *transferDecision) expect() *metav1.Condition {
	status, spec, now := &d.transfer.Status, &d.transfer.Spec, d.facts.Now
	kept, run := status.Deadline, status.Run
	if kept == nil {
		kept = &v1alpha1.DeadlineStatus{}
	}
	open := d.running() || d.awaited()
	ended := !open && run != nil &&
		(status.Phase == v1alpha1.TransferComplete || status.Phase == v1alpha1.TransferFailed)
	ofRun, same := ended && kept.RunID == run.ID, ofTime(kept, spec.Deadline)
	if settled(kept) {
		switch {
		case same && kept.Slack.Duration >= 0, ofRun && (same || spec.Deadline.Time == nil):
			return verdict(kept)
		case same: // a run was late, and those after it have no deadline
			return nil
		}
	}
	// Only a run that was open with this deadline is judged by it, so that a later change of the spec is none of its own.
	judged := ofRun && (same || spec.Deadline.Time == nil) ||
		ended && spec.Deadline.Time != nil && status.Phase == v1alpha1.TransferFailed
	if !open && !judged && spec.Deadline.Time == nil {
		status.Deadline = nil
		return nil
	}
	next := &v1alpha1.DeadlineStatus{Hurried: d.hurried}
	if d.running() || judged {
		next.RunID = run.ID
	}
	if kept.RunID == next.RunID || next.RunID == "" {
		next.Hurried = next.Hurried || kept.Hurried
	}
	switch {
	case d.planned != nil:
		next.Plan, next.Message = d.planned.plan, d.planned.message
	case kept.RunID == next.RunID && next.RunID != "":
		next.Plan, next.Message = kept.Plan, kept.Message
	}
	// The API server keeps whole seconds.
	since := d.wanted().Truncate(time.Second)
	by := Deadline(spec.Deadline, since).Truncate(time.Second)
	switch {
	case ofRun && judged:
		next.StartTime = kept.StartTime
		if spec.Deadline.Time == nil {
			by = kept.Time.Time
		}
	case judged:
		next.StartTime = run.StartTime.DeepCopy()
	default:
		next.StartTime = &metav1.Time{Time: since}
	}
	next.Time = metav1.NewTime(by)
	status.Deadline = next
	if judged {
		return d.judge(next)
	}
	if by.After(now) {
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, max(by.Sub(now), time.Second))
	}
	work, known := workLeft(status)
	known = known && open && !spec.Pause && !spec.Suspend
	if !known {
		work = deadlineplan.Work{}
	}
	end, ok := deadlineplan.Forecast(spec, work, now)
	if d.planned != nil && d.planned.waits && known {
		end, ok = d.planned.plan.PredictedTime.Time, true
	}
	end = end.Truncate(time.Second)
	if known && ok {
		if was := kept.PredictedTime; was != nil && kept.RunID == next.RunID {
			end = steadied(was.Time, end, by, now)
		}
		next.PredictedTime, next.Slack = &metav1.Time{Time: end}, &metav1.Duration{Duration: by.Sub(end)}
	}
	return judgeForecast(by, now, next.PredictedTime, end, ok)
}

// steadied is the forecast to show after another one: that one if they say hardly anything else, and one that is on the
// same side of the deadline unless it has clearly passed that.
func steadied(shown, end, by, now time.Time) time.Time {
	near := max(steady, end.Sub(now)/steadyPart)
	switch {
	case shown.After(by) == end.After(by) && end.Sub(shown).Abs() <= near:
		return shown
	case shown.After(by) == end.After(by) || end.Sub(by).Abs() > near:
		return end
	case shown.After(by):
		return by.Add(time.Second)
	}
	return by
}

// judge is the condition for a run that has ended.
func (d *transferDecision) judge(next *v1alpha1.DeadlineStatus) *metav1.Condition {
	by, run := next.Time.Time, d.transfer.Status.Run
	switch {
	case d.transfer.Status.Phase != v1alpha1.TransferComplete && d.facts.Now.Before(by):
		d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, max(by.Sub(d.facts.Now), time.Second))
		return deadlineCondition(metav1.ConditionFalse, v1alpha1.ReasonDeadlineOutOfReach, fmt.Sprintf(
			"run %s has failed, and one is to be complete by %s; remove the cause that the condition Ready names and give the "+
				"annotation %s a new value", run.ID, text(by), v1alpha1.RunAnnotation))
	case d.transfer.Status.Phase != v1alpha1.TransferComplete:
		return deadlineCondition(metav1.ConditionFalse, v1alpha1.ReasonDeadlineMissed, fmt.Sprintf(
			"run %s was to be complete by %s, and has failed", run.ID, text(by)))
	}
	next.Slack = &metav1.Duration{Duration: by.Sub(run.CompletionTime.Truncate(time.Second))}
	return verdict(next)
}

// verdict is the condition for a run that was Complete.
func verdict(is *v1alpha1.DeadlineStatus) *metav1.Condition {
	message := fmt.Sprintf("run %s was to be complete by %s, and was at %s", is.RunID, text(is.Time.Time),
		text(is.Time.Add(-is.Slack.Duration)))
	if is.Slack.Duration < 0 {
		return deadlineCondition(metav1.ConditionFalse, v1alpha1.ReasonDeadlineMissed, message)
	}
	return deadlineCondition(metav1.ConditionTrue, v1alpha1.ReasonDeadlineKept, message)
}

// judgeForecast is the condition for a run that has not ended. predicted is nil when nothing was measured, and end is
// then when it could begin; ok is false when it does not end within a year.
func judgeForecast(by, now time.Time, predicted *metav1.Time, end time.Time, ok bool) *metav1.Condition {
	earliest := "there are no figures yet to say when it will be"
	switch {
	case !ok:
		earliest = "it is not expected to be within a year"
	case predicted != nil:
		earliest = "the earliest that can be expected is " + text(end)
	case end.After(by) && end.After(now):
		earliest = "its windows let an attempt begin at " + text(end)
	}
	switch {
	case !now.Before(by):
		return deadlineCondition(metav1.ConditionFalse, v1alpha1.ReasonDeadlineMissed, fmt.Sprintf(
			"the run was to be complete by %s, and is not; %s", text(by), earliest))
	case !ok, end.After(by):
		return deadlineCondition(metav1.ConditionFalse, v1alpha1.ReasonDeadlineOutOfReach, fmt.Sprintf(
			"the run is to be complete by %s; %s", text(by), earliest))
	case predicted == nil:
		return deadlineCondition(metav1.ConditionUnknown, v1alpha1.ReasonDeadlineUnpredicted, fmt.Sprintf(
			"the run is to be complete by %s; %s", text(by), earliest))
	}
	return deadlineCondition(metav1.ConditionTrue, v1alpha1.ReasonDeadlineInReach, fmt.Sprintf(
		"the run is to be complete by %s; it is expected to be at %s", text(by), text(end)))
}

func deadlineCondition(is metav1.ConditionStatus, reason, message string) *metav1.Condition {
	c := conditions.New(v1alpha1.ConditionWithinDeadline, false, reason, message)
	c.Status = is
	return &c
}
