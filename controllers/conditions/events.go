// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Tell records an event when the reason of Ready, or whether the object is Stalled, has changed. It is a warning when
// the object is Stalled and for the given reasons of Ready.
func Tell(recorder events.EventRecorder, object runtime.Object, before, after []metav1.Condition, warnings ...string) {
	ready := meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if ready == nil {
		return
	}
	stalled := meta.IsStatusConditionTrue(after, v1alpha1.ConditionStalled)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	if was != nil && was.Reason == ready.Reason &&
		meta.IsStatusConditionTrue(before, v1alpha1.ConditionStalled) == stalled {
		return
	}
	kind := corev1.EventTypeNormal
	if stalled || slices.Contains(warnings, ready.Reason) {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(object, nil, kind, ready.Reason, "Reconcile", "%s", ready.Message)
}
