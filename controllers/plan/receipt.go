// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// receiptStatus is what the agent of a run that is complete says of its content; nil if it says nothing.
func receiptStatus(report *wirev1.Report) *v1alpha1.ReceiptStatus {
	c := report.GetContents()
	if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED || len(c.GetSha256()) != sha256.Size {
		return nil
	}
	return &v1alpha1.ReceiptStatus{
		ContentsSHA256: hex.EncodeToString(c.GetSha256()),
		Entries:        agentreport.Clamp(c.GetEntries()), Bytes: agentreport.Clamp(c.GetBytes()),
		WireBytes: agentreport.Clamp(report.GetWireBytes()), DigestSeconds: agentreport.Seconds(float64(c.GetCpuNanos())),
	}
}

// ReceiptPending is the condition of a run that is complete, until both sides have signed its receipt.
func ReceiptPending(run *v1alpha1.RunStatus) metav1.Condition {
	return conditions.New(v1alpha1.ConditionReceiptSigned, false, v1alpha1.ReasonReceiptPending,
		fmt.Sprintf("run %s is complete; the receiving cluster has not signed its receipt yet", run.ID))
}

// expectReceipt says of a run that is complete whether there will be a receipt.
func (d *transferDecision) expectReceipt() {
	status := &d.transfer.Status
	state := ReceiptPending(status.Run)
	switch {
	case status.Receipt == nil && (!d.transfer.Spec.Receipt || HasLegs(d.transfer)):
		return
	case status.Receipt == nil:
		state = conditions.New(v1alpha1.ConditionReceiptSigned, false, v1alpha1.ReasonReceiptMissing, fmt.Sprintf(
			"run %s has no receipt: spec.receipt was set when its last attempt had begun; run the Transfer again to get one",
			status.Run.ID))
	}
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{state}, d.transfer.Generation, d.facts.Now,
	)
}

// leaveReceipt says of a run that the next one follows if its receipt was not signed.
func (d *transferDecision) leaveReceipt() {
	status := &d.transfer.Status
	if status.Receipt == nil || status.Run == nil {
		return
	}
	if status.Receipt.ConfigMapName != "" {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReceiptSigned)
		return
	}
	if is := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReceiptSigned); is != nil &&
		is.Reason == v1alpha1.ReasonReceiptMissing {
		return // for a reason of its own
	}
	missing := conditions.New(v1alpha1.ConditionReceiptSigned, false, v1alpha1.ReasonReceiptMissing, fmt.Sprintf(
		"run %s has no receipt: the next run began before the other cluster had signed; check that its manager and gateway "+
			"run, and leave more time between runs", status.Run.ID))
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{missing}, d.transfer.Generation, d.facts.Now,
	)
}
