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
		ContentsSHA256: hex.EncodeToString(c.GetSha256()), Entries: agentreport.Clamp(c.GetEntries()), Bytes: agentreport.Clamp(c.GetBytes()),
		WireBytes: agentreport.Clamp(report.GetWireBytes()), DigestSeconds: agentreport.Seconds(float64(c.GetCpuNanos())),
	}
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
	missing := conditions.New(v1alpha1.ConditionReceiptSigned, false, v1alpha1.ReasonReceiptMissing, fmt.Sprintf(
		"run %s has no receipt: the next run began before the other cluster had signed; check that its manager and gateway "+
			"run, and leave more time between runs", status.Run.ID))
	status.Conditions = conditions.Merge(
		status.Conditions, []metav1.Condition{missing}, d.transfer.Generation, d.facts.Now,
	)
}
