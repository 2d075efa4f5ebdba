// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// ReceiptStatus is for tests.
var ReceiptStatus = receiptStatus

// LeaveReceipt returns the conditions of a Transfer whose next run begins.
func LeaveReceipt(receipt *v1alpha1.ReceiptStatus, present ...metav1.Condition) []metav1.Condition {
	d := &transferDecision{transfer: &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
		Run: &v1alpha1.RunStatus{ID: "a2b3c"}, Receipt: receipt, Conditions: present,
	}}}
	d.leaveReceipt()
	return d.transfer.Status.Conditions
}

// ExpectReceipt returns the conditions of a Transfer whose run is complete.
func ExpectReceipt(wanted bool, receipt *v1alpha1.ReceiptStatus, present ...metav1.Condition) []metav1.Condition {
	d := &transferDecision{transfer: &v1alpha1.Transfer{
		Spec: v1alpha1.TransferSpec{Receipt: wanted},
		Status: v1alpha1.TransferStatus{
			Run: &v1alpha1.RunStatus{ID: "a2b3c"}, Receipt: receipt, Conditions: present,
		},
	}}
	d.complete()
	return d.transfer.Status.Conditions
}
