// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// tell records an event when the reason of Ready, or whether the Transfer is Stalled, has changed.
func (r *Reconciler) tell(transfer *v1alpha1.Transfer, before []metav1.Condition) {
	r.tellOfHooks(transfer, before)
	r.tellOfDeadline(transfer, before)
	ready := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return
	}
	stalled := meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionStalled)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	if was != nil && was.Reason == ready.Reason &&
		meta.IsStatusConditionTrue(before, v1alpha1.ConditionStalled) == stalled {
		return
	}
	r.Recorder.Eventf(transfer, nil, warning(stalled, ready.Reason), ready.Reason, "Reconcile", "%s", ready.Message)
}

// tellOfDeadline records an event when the run turns out to be late.
func (r *Reconciler) tellOfDeadline(transfer *v1alpha1.Transfer, before []metav1.Condition) {
	is := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionWithinDeadline)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionWithinDeadline)
	if is == nil || is.Status != metav1.ConditionFalse || was != nil && was.Reason == is.Reason {
		return
	}
	r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
}
