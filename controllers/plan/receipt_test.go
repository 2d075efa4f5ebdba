// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func TestContentsOfARun(t *testing.T) {
	digest := bytes.Repeat([]byte{0xab}, 32)
	for name, test := range map[string]struct {
		state wirev1.AgentState
		sum   []byte
		want  bool
	}{
		"complete": {wirev1.AgentState_AGENT_STATE_SUCCEEDED, digest, true},
		"failed":   {wirev1.AgentState_AGENT_STATE_FAILED, digest, false},
		"short":    {wirev1.AgentState_AGENT_STATE_SUCCEEDED, digest[1:], false},
		"none":     {wirev1.AgentState_AGENT_STATE_SUCCEEDED, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			report := &wirev1.Report{
				State: test.state, WireBytes: 9,
				Contents: &wirev1.ContentDigest{Sha256: test.sum, Entries: 3, Bytes: 7, CpuNanos: 15e8},
			}
			got := plan.ReceiptStatus(report)
			if got == nil != !test.want {
				t.Fatalf("%+v", got)
			}
			if got != nil && *got != (v1alpha1.ReceiptStatus{
				ContentsSHA256: hex.EncodeToString(digest), Entries: 3, Bytes: 7, WireBytes: 9, DigestSeconds: "1.50",
			}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What a run leaves when the next one begins.
func TestReceiptOfTheRunBefore(t *testing.T) {
	signed := metav1.Condition{Type: v1alpha1.ConditionReceiptSigned, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonSucceeded}
	for name, test := range map[string]struct {
		receipt *v1alpha1.ReceiptStatus
		want    string
	}{
		"signed":     {&v1alpha1.ReceiptStatus{ConfigMapName: "kept"}, ""},
		"not signed": {&v1alpha1.ReceiptStatus{Envelope: "{}"}, v1alpha1.ReasonReceiptMissing},
		"none":       {nil, v1alpha1.ReasonSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.LeaveReceipt(test.receipt, signed)
			reason := ""
			if c := meta.FindStatusCondition(got, v1alpha1.ConditionReceiptSigned); c != nil {
				reason = c.Reason
			}
			if reason != test.want {
				t.Errorf("the condition has the reason %q", reason)
			}
		})
	}
}

// What a run that is complete says of its receipt, whatever the run before left.
func TestReceiptToCome(t *testing.T) {
	before := metav1.Condition{
		Type: v1alpha1.ConditionReceiptSigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReceiptMissing,
	}
	for name, test := range map[string]struct {
		wanted  bool
		receipt *v1alpha1.ReceiptStatus
		want    string
	}{
		"to be signed":           {true, &v1alpha1.ReceiptStatus{}, v1alpha1.ReasonReceiptPending},
		"not wanted any more":    {false, &v1alpha1.ReceiptStatus{}, v1alpha1.ReasonReceiptPending},
		"wanted after the start": {true, nil, v1alpha1.ReasonReceiptMissing},
		"not wanted":             {false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			present := []metav1.Condition{before}
			if test.want != v1alpha1.ReasonReceiptPending {
				present = nil
			}
			got := plan.ExpectReceipt(test.wanted, test.receipt, present...)
			reason := ""
			if c := meta.FindStatusCondition(got, v1alpha1.ConditionReceiptSigned); c != nil {
				reason = c.Reason
			}
			if reason != test.want {
				t.Errorf("the condition has the reason %q", reason)
			}
		})
	}
}
