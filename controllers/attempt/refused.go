// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// RefusedDelay is how long to wait after a refusal.
func RefusedDelay(present []metav1.Condition, now time.Time) time.Duration {
	if since, ok := RefusedSince(present); ok {
		return min(max(now.Sub(since), refusedFirst), StallLast)
	}
	return refusedFirst
}

// RefusedSince is since when an attempt's start is refused; ok is false when it is not.
func RefusedSince(present []metav1.Condition) (since time.Time, ok bool) {
	stalled := meta.FindStatusCondition(present, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonAgentNotStarted {
		return time.Time{}, false
	}
	return stalled.LastTransitionTime.Time, true
}
