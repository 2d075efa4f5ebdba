// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// finish records an attempt that has ended and decides what follows.
func (d *transferDecision) finish(report *wirev1.Report) {
	reason, message := v1alpha1.ReasonSucceeded, ""
	if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		reason, message = agentreport.FailureReason(report.GetFailure().GetReason()), report.GetFailure().GetMessage()
		if message == "" {
			message = "the agent gave no message"
		}
		message = d.ofOldRelease(reason, message)
	}
	d.conclude(report, reason, message)
	switch {
	case reason == v1alpha1.ReasonSucceeded:
		d.complete()
	case attempt.EndsRun(reason):
		d.giveUp(reason, message)
	case attempt.NeedsSomebody(reason):
		d.waitForSomebody(reason, message)
	case reason == v1alpha1.ReasonSuperseded:
		d.followNewest(report.GetFailure().GetNewestAttempt(), message)
	case reason == v1alpha1.ReasonEvicted:
		d.waitForNode(message)
	default:
		d.waitForBackOff(reason, message)
	}
}

// record notes in the history how an attempt ended.
func (d *transferDecision) record(report *wirev1.Report, reason, message string) {
	status, now := &d.transfer.Status, metav1.NewTime(d.facts.Now)
	record := v1alpha1.AttemptRecord{
		RunID: status.Run.ID, Attempt: status.Run.Attempt, Reason: reason, Message: conditions.Shorten(message),
		StartTime: status.Run.StartTime, CompletionTime: &now, Node: status.Run.Node,
	}
	if start := report.GetStartTime(); start != nil {
		begun := metav1.NewTime(start.AsTime())
		record.StartTime = &begun
	}
	if end := report.GetEndTime(); end != nil {
		done := metav1.NewTime(end.AsTime())
		record.CompletionTime = &done
	}
	if record.StartTime != nil && !record.CompletionTime.Before(record.StartTime) {
		record.Duration = &metav1.Duration{Duration: record.CompletionTime.Sub(record.StartTime.Time).Round(time.Millisecond)}
	}
	if packed := status.Compression; packed != nil {
		record.Engine, record.Bytes, record.CompressedBytes = packed.Engine, packed.UncompressedBytes, packed.CompressedBytes
		record.Operations, record.StoredBytes = agentreport.AllOperations(packed), packed.Stored.Bytes
	}
	if status.Policy != nil {
		record.Objective = status.Policy.Objective
	}
	if status.Progress != nil {
		record.ResumedBytes, record.ResentBytes = status.Progress.ResumedBytes, status.Progress.ResentBytes
		record.Removed, record.ReusedBytes = status.Progress.Removed, status.Progress.ReusedBytes
	}
	record.Usage, record.Cost = status.Usage.DeepCopy(), status.Cost.DeepCopy()
	status.History = append([]v1alpha1.AttemptRecord{record}, status.History...)
	if len(status.History) > maxHistory {
		status.History = status.History[:maxHistory]
	}
}

func (d *transferDecision) complete() {
	status, now := &d.transfer.Status, metav1.NewTime(d.facts.Now)
	status.Run.CompletionTime = &now
	d.noteRecoveryPoint()
	message := fmt.Sprintf("run %s is complete", status.Run.ID)
	if p := status.Progress; p != nil {
		message = fmt.Sprintf(
			"run %s is complete: %d files, %d bytes, %d files of them unchanged", status.Run.ID, p.Files, p.Bytes,
			p.UnchangedFiles,
		)
	}
	d.set(v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, message))
	d.expectReceipt()
	d.announceSnapshot()
	if asked := d.transfer.Annotations[v1alpha1.RunAnnotation]; asked != "" && asked != status.LastRunRequest {
		d.out.RequeueAfter = time.Second
	}
}
