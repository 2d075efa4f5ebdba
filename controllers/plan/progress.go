// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// transferState is a status without what changes all the time while an agent runs.
func transferState(status v1alpha1.TransferStatus) v1alpha1.TransferStatus {
	status.Progress, status.Decompression, status.CPU, status.Usage, status.Cost = nil, nil, nil, nil, nil
	status.Omissions, status.Decisions = nil, nil
	if status.Run != nil {
		run := *status.Run
		run.Usage, run.Cost = nil, nil
		status.Run = &run
	}
	if status.Deadline != nil {
		deadline := *status.Deadline
		deadline.PredictedTime, deadline.Slack = nil, nil
		status.Deadline = &deadline
	}
	if c := status.Compression; c != nil {
		status.Compression = &v1alpha1.CompressionStatus{Codec: c.Codec, Engine: c.Engine, Reason: c.Reason}
	}
	status.Conditions = attempt.WithoutMessages(status.Conditions)
	return status
}

// deliveryState is the same of a Delivery.
func deliveryState(status v1alpha1.DeliveryStatus) v1alpha1.DeliveryStatus {
	status.Progress, status.Compression, status.Decompression, status.Omissions = nil, nil, nil, nil
	status.CPU, status.Usage, status.Cost = nil, nil, nil
	status.Conditions = attempt.WithoutMessages(status.Conditions)
	return status
}

// state of the attempt's agent: what its Job and its pod tell, and what it said itself.
func (d *transferDecision) state() attempt.State {
	state := attempt.Observe(d.facts.Job, d.facts.Pod)
	if d.shares() {
		return state.OfReceiver(destinationOf(d.facts.Whole, d.transfer.Name), d.facts.Report)
	}
	return state.Heard(d.facts.Report)
}

// resumed is what earlier attempts of the run made safe: the files that they finished, as far as this one has found
// them unchanged at the destination already, and the parts of others that this one goes on from. What it finds
// unchanged may also have been there before the run.
func (d *transferDecision) resumed(report *wirev1.Report) int64 {
	whole := min(d.transfer.Status.Run.DeliveredBytes, agentreport.Clamp(report.GetProgress().GetUnchangedBytes()))
	return agentreport.Saturated(whole, agentreport.Clamp(report.GetProgress().GetResumedBytes()))
}

// delivered are the bytes of the files that the attempt itself brought to the destination, whole; of an agent that was
// lost, those of its last answer.
func (d *transferDecision) delivered() int64 {
	progress := d.transfer.Status.Progress
	if progress == nil {
		return 0
	}
	return max(0, progress.Bytes-progress.PartialBytes-progress.UnchangedBytes)
}
