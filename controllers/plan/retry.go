// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/usage"
)

// inARow is how many of the last attempts of a run, newest first, ended for a reason that counts.
func inARow(history []v1alpha1.AttemptRecord, run string, counts func(reason string) bool) int32 {
	n := slices.IndexFunc(history, func(record v1alpha1.AttemptRecord) bool {
		return record.RunID != run || !counts(record.Reason)
	})
	if n < 0 {
		n = len(history)
	}
	return int32(min(n, maxHistory)) //nolint:gosec // It is at most maxHistory.
}

// conclude shows the last report of an attempt and records it.
func (d *transferDecision) conclude(report *wirev1.Report, reason, message string) {
	status := &d.transfer.Status
	d.apply(report, agentreport.WholeRate(report, report.GetCompression().GetUncompressedBytes()))
	if status.Progress != nil {
		status.Progress.ETA = nil
	}
	if attempt.Interrupted(reason) && d.madeSafe() {
		status.Run.Failures = 0
	}
	d.record(report, reason, message)
	if status.Run.BandwidthShare != nil {
		status.Run.BandwidthShare = quantityOf(quota.LeastBandwidth) // the next attempt has more when its agent answers
	}
	status.Run.DeliveredBytes = agentreport.Saturated(status.Run.DeliveredBytes, d.delivered())
	d.out.Finished = &Finished{
		Reason: reason, RunEnded: true, Report: usage.FromStatus(status.Usage).Report(), DataPath: status.Run.DataPath,
		PathCost: d.pathCost(report, reason),
	}
}

// giveUp ends a run that another attempt would not fix. A change of the spec starts the next one.
func (d *transferDecision) giveUp(reason, message string) {
	status, now := &d.transfer.Status, metav1.NewTime(d.facts.Now)
	status.Run.Failures++
	status.Run.CompletionTime = &now
	d.set(v1alpha1.TransferFailed, conditions.Stalled(reason, message))
}

func (d *transferDecision) waitForSomebody(reason, message string) {
	d.next(attempt.StallDelay(d.inARow(attempt.NeedsSomebody)))
	d.out.Finished.RunEnded = false
	d.set(v1alpha1.TransferRetrying, conditions.Stalled(reason, message))
}

// waitForNode follows an eviction, which is no failure of the attempt's.
func (d *transferDecision) waitForNode(message string) {
	run := d.transfer.Status.Run
	delay := d.next(attempt.RetryDelay(d.inARow(func(reason string) bool { return reason == v1alpha1.ReasonEvicted })))
	d.out.Finished.RunEnded = false
	d.set(v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
		"attempt %d ended with %s: %s; that is not counted as a failure, next attempt in %s", run.Attempt,
		v1alpha1.ReasonEvicted, message, delay)))
}

// inARow is how many of the last attempts of the run ended for a reason that counts, the one that has just ended
// included.
func (d *transferDecision) inARow(counts func(reason string) bool) int32 {
	return inARow(d.transfer.Status.History, d.transfer.Status.Run.ID, counts)
}

// lastEnded is the number of the last attempt of the run that has ended; 0 if none has.
func (d *transferDecision) lastEnded() int32 {
	history := d.transfer.Status.History
	if len(history) == 0 || history[0].RunID != d.transfer.Status.Run.ID {
		return 0
	}
	return history[0].Attempt
}

// madeSafe reports whether the run has come further than at the end of the last attempt: this one brought whole files
// to the destination, or found more of others there that it need not send again.
func (d *transferDecision) madeSafe() bool {
	status := &d.transfer.Status
	if status.Progress == nil {
		return false
	}
	resumed := int64(0)
	for _, record := range status.History {
		if record.RunID == status.Run.ID {
			resumed = max(resumed, record.ResumedBytes)
		}
	}
	return d.delivered() > 0 || status.Progress.ResumedBytes > resumed
}

func (d *transferDecision) waitForBackOff(reason, message string) {
	status, now := &d.transfer.Status, metav1.NewTime(d.facts.Now)
	status.Run.Failures++
	limit := d.transfer.Spec.MaxAttempts
	if limit == 0 {
		limit = 5
	}
	if status.Run.Failures >= limit {
		status.Run.CompletionTime = &now
		d.set(v1alpha1.TransferFailed, conditions.Stalled(v1alpha1.ReasonMaxAttemptsReached, fmt.Sprintf(
			"%d attempts failed, the last one with %s: %s; fix the cause and give the annotation %s a new value",
			status.Run.Failures, reason, message, v1alpha1.RunAnnotation)))
		return
	}
	delay := d.next(attempt.RetryDelay(status.Run.Failures))
	d.out.Finished.RunEnded = false
	d.set(v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
		"attempt %d ended with %s: %s; %d of %d failures, next attempt in %s", status.Run.Attempt, reason, message,
		status.Run.Failures, limit, delay)))
}

// fixed: what the last attempt ended for has to do with the Peer, and the Peer has become Ready since.
func (d *transferDecision) fixed() bool {
	history := d.transfer.Status.History
	if len(history) == 0 || history[0].CompletionTime == nil || d.facts.Peer == nil {
		return false
	}
	switch history[0].Reason {
	case v1alpha1.ReasonPeerUnreachable, v1alpha1.ReasonPeerUntrusted, v1alpha1.ReasonPeerIncompatible:
	default:
		return false
	}
	ready := meta.FindStatusCondition(d.facts.Peer.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue ||
		!ready.LastTransitionTime.After(history[0].CompletionTime.Time) {
		return false
	}
	// One that is in the future is from before the clock was set back: it would be after every attempt, and none would
	// wait.
	return !ready.LastTransitionTime.After(d.facts.Now)
}

// next plans the next attempt for after a delay, or a little later, and returns when.
func (d *transferDecision) next(delay time.Duration) time.Duration {
	delay = attempt.Spread(delay, d.transfer.UID, int64(d.transfer.Status.Run.Attempt))
	at := metav1.NewTime(d.facts.Now.Add(delay))
	d.transfer.Status.Run.NextAttemptTime = &at
	d.out.RequeueAfter = delay
	return delay
}

// maxSkip bounds by how many attempts a peer's word moves a run on.
const maxSkip = 1000

// followNewest goes on after the newest attempt that the receiving cluster knows of. This cluster's state is older than
// the peer's, which is nobody's failure.
func (d *transferDecision) followNewest(newest uint32, message string) {
	run := d.transfer.Status.Run
	if skip := int64(newest) - int64(run.Attempt); skip > 0 {
		run.Attempt += int32(min(skip, maxSkip)) //nolint:gosec // it is bounded
	}
	delay := d.next(attempt.StallDelay(d.inARow(func(reason string) bool { return reason == v1alpha1.ReasonSuperseded })))
	d.out.Finished.RunEnded = false
	d.set(
		v1alpha1.TransferRetrying,
		conditions.Reconciling(v1alpha1.ReasonSuperseded, fmt.Sprintf("%s; next attempt in %s", message, delay)),
	)
}

// forgetAttempt removes what is said of the attempt before.
func (d *transferDecision) forgetAttempt() {
	status := &d.transfer.Status
	status.Run.ClaimSize, status.Run.DataPath = nil, nil
	status.Progress, status.Compression, status.Decompression, status.Decisions = nil, nil, nil, nil
	status.CPU, status.Usage, status.Cost, status.Omissions, status.Receipt = nil, nil, nil, nil, nil
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionHardwareCompression)
}
