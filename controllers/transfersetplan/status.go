// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/usedby"
)

const (
	// maxFailures are shown, as many as the API allows.
	maxFailures = 16
	// maxFailureBytes of a message there.
	maxFailureBytes = 256
)

// Status is what the set's status is to show.
func (d *Decision) Status() v1alpha1.TransferSetStatus {
	status := v1alpha1.TransferSetStatus{
		ObservedGeneration: d.set.Generation, Conditions: d.set.Status.Conditions, Group: d.group, Schedule: d.schedule,
	}
	wanted := d.sum(&status)
	status.Conditions = conditions.Merge(status.Conditions, wanted, d.set.Generation, d.now)
	return status
}

// sum fills in figures and failures, and returns the conditions.
func (d *Decision) sum(status *v1alpha1.TransferSetStatus) []metav1.Condition {
	if d.problem != nil {
		return conditions.Stalled(d.problem.reason, d.problem.message)
	}
	counts := map[phase]int32{}
	first := map[phase]*state{}
	covered := true
	for i := range d.states {
		s := &d.states[i]
		if counts[s.phase]++; counts[s.phase] == 1 {
			first[s.phase] = s
		}
		if s.phase >= failed && len(status.Failures) < maxFailures {
			status.Failures = append(status.Failures, v1alpha1.TransferSetFailure{
				ClaimName: s.Claim, TransferName: s.Name, Reason: s.problem.reason, Message: shorten(s.problem.message),
			})
		}
		if s.transfer == nil || s.transfer.Status.RecoveryPoint == nil {
			covered = false
		} else if point := s.transfer.Status.RecoveryPoint; status.RecoveryPoint == nil ||
			point.Before(status.RecoveryPoint) {
			status.RecoveryPoint = point.DeepCopy()
		}
		if s.transfer != nil && s.transfer.Status.Progress != nil {
			status.Bytes += max(s.transfer.Status.Progress.Bytes, 0)
			status.BytesTotal += max(s.transfer.Status.Progress.BytesTotal, 0)
		}
	}
	if !covered {
		status.RecoveryPoint = nil
	}
	used := usedby.Total(d.uses())
	status.WireBytes, status.Costs = used.WireBytes, used.Costs
	status.Members = &v1alpha1.TransferSetMembers{
		Selected: int32(len(d.states)), Complete: counts[complete], Running: counts[running], Waiting: counts[waiting],
		Failed: counts[failed] + counts[barred] + counts[rejected], Retained: d.retained,
	}
	return d.conditions(*status.Members, first)
}

// conditions by what needs somebody first. The first member of each phase is named.
func (d *Decision) conditions(members v1alpha1.TransferSetMembers, first map[phase]*state) []metav1.Condition {
	progress := fmt.Sprintf("%d of %d members are complete, %d run, %d wait",
		members.Complete, members.Selected, members.Running, members.Waiting)
	if d.grouping != nil {
		return conditions.Stalled(d.grouping.reason, d.grouping.message)
	}
	for _, trouble := range []struct {
		phase  phase
		reason string
		says   string
	}{
		{barred, v1alpha1.ReasonSetConflict, "has no member"},
		{rejected, v1alpha1.ReasonMembersRejected, "has none that the API server accepts, which is tried again every minute"},
		{failed, v1alpha1.ReasonMembersFailed, "failed or waits for somebody"},
	} {
		if s := first[trouble.phase]; s != nil {
			return conditions.Stalled(trouble.reason, fmt.Sprintf("%s; %d need somebody, see status.failures: that of claim %s "+
				"%s: %s: %s", progress, members.Failed, s.Claim, trouble.says, s.problem.reason, s.problem.message))
		}
	}
	switch {
	case d.group != nil && d.group.State == v1alpha1.GroupSnapshotting:
		return conditions.Reconciling(v1alpha1.ReasonTakingGroupSnapshot, fmt.Sprintf(
			"VolumeGroupSnapshot %q of all members is being taken", d.group.Name))
	case members.Selected == 0:
		return conditions.Resting(v1alpha1.ReasonNoClaims,
			"spec.selector finds no claim; those that are created or labelled later join")
	case members.Complete == members.Selected:
		return conditions.Ready(v1alpha1.ReasonMembersComplete, fmt.Sprintf("all %d members are complete", members.Complete))
	case d.set.Spec.Suspend && members.Running == 0:
		return conditions.Resting(v1alpha1.ReasonSuspended,
			progress+"; nothing starts while spec.suspend is true; set it to false to go on")
	}
	if d.group != nil && d.group.State == v1alpha1.GroupComplete && members.Running == 0 {
		progress += "; those that wait join with the next VolumeGroupSnapshot, which the schedule makes, or another value " +
			"of the set's annotation " + v1alpha1.RunAnnotation
	}
	return conditions.Reconciling(v1alpha1.ReasonMembersRunning, progress)
}

// shorten cuts a message between two characters.
func shorten(message string) string {
	if len(message) <= maxFailureBytes {
		return message
	}
	cut := maxFailureBytes - len("…")
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "…"
}
