// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/windows"
)

const (
	// pausePoll is the wait between two looks at agents that are being stopped, in case no event tells of their end.
	pausePoll = 2 * time.Second
	// clockPatience bounds how long the end of a window is slept through when the clock is set meanwhile.
	clockPatience = 5 * time.Minute
)

// hold is why no agent of a Transfer may run now.
type hold struct{ reason, message string }

// window is what the windows of a schedule say now.
type window struct {
	zone string
	// limited: there are windows. Without them, one is open at all times.
	limited, open bool
	// until when that stays so; zero: for ever.
	until time.Time
	// next is when a window opens that is long enough to begin in; zero when one is open now.
	next time.Time
	// limit of bandwidth of those that are open, in bytes per second, 0: none; and until when, zero: for ever.
	limit      int64
	limitUntil time.Time
}

// bandwidth that the windows allow now; nil: any.
func (w *window) bandwidth() *resource.Quantity {
	if w == nil {
		return nil
	}
	return quantityOf(w.limit)
}

// held says why no agent may run now; nil if they may.
func (d *transferDecision) held() *hold {
	switch w := d.window; {
	case d.leg(): // its agent may be of others, too, and its spec is what the whole wants
		return nil
	case d.transfer.Spec.Pause:
		return &hold{v1alpha1.ReasonPaused, "no agent runs while spec.pause is true; set it to false to go on"}
	case w == nil || !w.limited, w.open && (UnderWay(d.transfer) || w.next.IsZero()):
		return nil
	default:
		return &hold{v1alpha1.ReasonOutsideWindow, fmt.Sprintf(
			"spec.schedule.windows let agents run from %s on", w.next.UTC().Format(time.RFC3339))}
	}
}

// keepWindow looks at the windows.
func (d *transferDecision) keepWindow() *agentpod.Problem {
	spec := d.transfer.Spec.Schedule
	zone, err := windows.Zone(spec.TimeZone)
	if err != nil {
		return agentpod.SpecProblem(fmt.Errorf("spec.schedule.timeZone %w", err))
	}
	d.window = &window{zone: zone.String()}
	if len(spec.Windows) == 0 {
		return nil
	}
	all, err := windows.New(spec.Windows, zone)
	if err != nil {
		d.window = nil
		return agentpod.SpecProblem(fmt.Errorf("spec.schedule.windows: %w", err))
	}
	w := d.window
	w.limited = true
	w.open, w.until = all.At(d.facts.Now)
	w.limit, w.limitUntil = all.Limit(d.facts.Now)
	w.next = w.until
	switch {
	case !w.open:
	case windows.Begins(d.facts.Now, w.until):
		w.next = time.Time{}
	default:
		_, w.next = all.At(w.until)
	}
	return nil
}

// showWindow brings the windows in status.schedule up to date.
func (d *transferDecision) showWindow() {
	shown, w := d.transfer.Status.Schedule, d.window
	if shown == nil || w == nil {
		return
	}
	shown.WindowEnd, shown.NextWindow = nil, nil
	if !w.limited || w.until.IsZero() {
		return
	}
	at := metav1.NewTime(w.until)
	if w.open {
		shown.WindowEnd = &at
	} else {
		shown.NextWindow = &at
	}
}

// wakeForWindow makes sure that a window's beginning and end, and changes of its limit, are not slept through, also
// when the clock is set.
func (d *transferDecision) wakeForWindow() {
	w := d.window
	if w == nil || !w.limited {
		return
	}
	wait := time.Duration(0)
	for _, at := range []time.Time{w.until, w.limitUntil, w.next} {
		if !at.IsZero() {
			wait = attempt.Sooner(wait, max(at.Sub(d.facts.Now), time.Second))
		}
	}
	if wait == 0 {
		return
	}
	if d.running() || d.pending() {
		wait = min(wait, clockPatience)
	}
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, wait)
}

// Pausing reports whether the agents of a Transfer are being stopped so that its run pauses.
func Pausing(transfer *v1alpha1.Transfer) bool {
	ready := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReady)
	return UnderWay(transfer) && ready != nil && ready.Reason == v1alpha1.ReasonPausing
}

// pause ends the agents of the attempt that is under way. The status says so before anything is done, so that a Job that
// is gone is not taken for lost. An agent that runs is asked first, so that it says why to the other side and leaves its
// report; at the next look whatever is left is removed. held is nil when the run may go on already.
func (d *transferDecision) pause(held *hold) {
	state := attempt.Observe(d.facts.Job, d.facts.Pod)
	if !d.shares() {
		state = state.Heard(d.facts.Report)
	}
	begun := Pausing(d.transfer)
	if state.Phase == attempt.Ended && !(begun && stopped(state.Final)) {
		d.finish(state.Final)
		return
	}
	if !begun {
		d.out.Pause = state.Phase == attempt.Running && d.facts.Report != nil
	} else {
		receiving := d.endDeliveries()
		over := state.Phase == attempt.Absent || state.Phase == attempt.Ended
		if over && (held == nil || !d.facts.PodsLeft && !receiving) {
			d.halt(state.Final, held)
			return
		}
	}
	for _, report := range []*wirev1.Report{d.facts.Report, state.Final} {
		if report != nil {
			d.apply(report, 0)
		}
	}
	d.transfer.Status.Progress = withoutRate(d.transfer.Status.Progress)
	d.out.Clear, d.out.RequeueAfter = !d.out.Pause, pausePoll
	d.set(d.transfer.Status.Phase, conditions.Reconciling(v1alpha1.ReasonPausing, fmt.Sprintf(
		"attempt %d of run %s: its agents are being stopped (10 s grace period). If a node is unreachable, the Transfer "+
			"stays here until its pod is removed", d.transfer.Status.Run.Attempt, d.transfer.Status.Run.ID)))
}

// stopped reports whether an agent ended because it was told to, or without a word.
func stopped(report *wirev1.Report) bool {
	reason := agentreport.FailureReason(report.GetFailure().GetReason())
	return report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED &&
		(reason == v1alpha1.ReasonPaused || attempt.Interrupted(reason))
}

// endDeliveries has the receiving agents of a run within this cluster ended, and reports whether there are any. Those of
// another cluster end when their sender does.
func (d *transferDecision) endDeliveries() (left bool) {
	if !IsLocal(d.transfer) {
		return false
	}
	for _, delivery := range OwnDeliveries(d.transfer, d.facts.Local.Deliveries) {
		if DeliveryEnded(&delivery) {
			continue
		}
		left = true
		if delivery.DeletionTimestamp == nil {
			d.out.Withdraw = append(d.out.Withdraw, delivery)
		}
	}
	return left
}

// halt records an attempt whose agents have ended for a pause. It is no failure, and the next one goes on with what it
// made safe.
func (d *transferDecision) halt(report *wirev1.Report, held *hold) {
	status, now := &d.transfer.Status, metav1.NewTime(d.facts.Now)
	if s := status.Staged; s != nil && status.Phase == v1alpha1.TransferStarting && s.State != v1alpha1.StagedReady {
		s.State = v1alpha1.StagedRemoving // it was not read, and would be late when the run goes on
	}
	if report == nil {
		report = &wirev1.Report{} // what status has is its last answer
	}
	message := "the run was paused"
	if held != nil {
		message = held.message
	}
	d.conclude(report, v1alpha1.ReasonPaused, message)
	d.out.Finished.RunEnded = false
	status.Run.NextAttemptTime = &now
	if held == nil {
		d.out.RequeueAfter = time.Millisecond
		d.set(v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
			"attempt %d was paused; the next one begins", status.Run.Attempt)))
		return
	}
	d.out.RequeueAfter = 0
	d.showHeld(*held)
}

// halted reports whether the last attempt of a run that is paused was ended for that. A Job of it was seen late, or is
// about to go. That of an attempt that failed before stays for people to read its log.
func halted(status v1alpha1.TransferStatus) bool {
	return status.Phase == v1alpha1.TransferPaused && len(status.History) > 0 &&
		status.History[0].Reason == v1alpha1.ReasonPaused
}

func (d *transferDecision) showHeld(held hold) {
	d.set(v1alpha1.TransferPaused, conditions.Resting(held.reason, held.message))
}

// rest leaves a Transfer that is suspended or paused as it is. How its last run ended stays to be seen.
func (d *transferDecision) rest(phase v1alpha1.TransferPhase, why hold) {
	switch d.transfer.Status.Phase {
	case v1alpha1.TransferComplete, v1alpha1.TransferFailed:
		return
	}
	if phase == v1alpha1.TransferPaused && d.running() {
		d.endDeliveries()
	}
	d.set(phase, conditions.Resting(why.reason, why.message))
}

// awaitWindow has a run, or its next attempt, wait for a window.
func (d *transferDecision) awaitWindow(held hold) {
	phase := v1alpha1.TransferPending
	if d.running() {
		d.endDeliveries()
		phase = v1alpha1.TransferPaused
	}
	d.awaitTime(phase, held)
}

// awaitTime has a run, or its next attempt, wait for a time. If it waited for a limit before, it waits for none now, and
// is as old among those that do when its time has come.
func (d *transferDecision) awaitTime(phase v1alpha1.TransferPhase, held hold) {
	before := d.transfer.Status.Queued
	d.set(phase, conditions.Resting(held.reason, held.message))
	if before != nil {
		d.transfer.Status.Queued = &v1alpha1.QueuedStatus{Time: before.Time, Route: before.Route, Priority: before.Priority}
	}
}
