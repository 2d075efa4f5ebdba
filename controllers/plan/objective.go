// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// Within reports whether a recovery point is not older than an objective allows, the condition that says so, and how
// long that stays so without another run; 0: for good.
func Within(
	objective v1alpha1.TransferObjective, point *metav1.Time, now time.Time,
) (condition metav1.Condition, until time.Duration) {
	if point == nil {
		return conditions.New(v1alpha1.ConditionWithinObjective, false, v1alpha1.ReasonNoRecoveryPoint,
			"the destination has no whole state of the source: no run is Complete yet, or, of a block volume, none since the "+
				"last one began"), 0
	}
	old := point.Add(objective.MaxAge.Duration)
	if now.Before(old) {
		// Of a time that is in the future nobody knows more than that: a clock was set back.
		return conditions.New(v1alpha1.ConditionWithinObjective, true, v1alpha1.ReasonRecoveryPointRecent, fmt.Sprintf(
			"the destination has the state of %s, which is too old (spec.objective.maxAge) from %s on", text(point.Time),
			text(old))), old.Sub(now)
	}
	return conditions.New(v1alpha1.ConditionWithinObjective, false, v1alpha1.ReasonRecoveryPointTooOld, fmt.Sprintf(
		"the destination has the state of %s, which is too old (spec.objective.maxAge) since %s; the condition Ready and "+
			"status.history say why no later run is Complete", text(point.Time), text(old))), 0
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// watchObjective shows whether the objective is met, and looks again when it will not be any more.
func (d *transferDecision) watchObjective() {
	status := &d.transfer.Status
	if d.transfer.Spec.Objective == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionWithinObjective)
		return
	}
	condition, until := Within(*d.transfer.Spec.Objective, status.RecoveryPoint, d.facts.Now)
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{condition}, d.transfer.Generation, d.facts.Now,
	)
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, until)
}

// noteRecoveryPoint notes the time whose state the destination has after a run that is complete.
func (d *transferDecision) noteRecoveryPoint() {
	if Scrubs(d.transfer) {
		return // There is no destination.
	}
	status := &d.transfer.Status
	reads, run := d.transfer, status.Run.ID
	if d.facts.Whole != nil {
		reads, run = d.facts.Whole, status.LastRunRequest // which has what its legs read
	}
	switch s := reads.Status.Staged; {
	case s != nil && s.RunID == run && s.PointInTime != nil:
		status.RecoveryPoint = s.PointInTime.DeepCopy()
	case reads != d.transfer && Stages(reads):
		// The run of the whole is over, and of its copy nobody knows the time any more.
	default:
		status.RecoveryPoint = status.Run.StartTime.DeepCopy()
	}
}

// noteCopyTime notes when the index of the object store was written that the run reads.
func (d *transferDecision) noteCopyTime(report *wirev1.Report) {
	if written := report.GetCopyTime(); written.IsValid() {
		at := metav1.NewTime(written.AsTime().Truncate(time.Second))
		d.transfer.Status.Run.CopyTime = &at
	}
}
