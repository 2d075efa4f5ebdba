// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions makes the conditions that every kind has, and writes statuses that changed.
package conditions

import (
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// maxMessageBytes keeps a status readable; the API server would allow 32768.
const maxMessageBytes = 1024

// Ready are the conditions of an object that is in the state that its spec asks for.
func Ready(reason, message string) []metav1.Condition {
	return states(reason, message, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionFalse)
}

// Reconciling are the conditions of an object that is being worked on.
func Reconciling(reason, message string) []metav1.Condition {
	return states(reason, message, metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse)
}

// Resting are the conditions of an object that nothing is done for because its spec asks for that.
func Resting(reason, message string) []metav1.Condition {
	return states(reason, message, metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionFalse)
}

// Stalled are the conditions of an object that waits for somebody; the message says for whom and what.
func Stalled(reason, message string) []metav1.Condition {
	return states(reason, message, metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionTrue)
}

func states(reason, message string, ready, reconciling, stalled metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message},
		{Type: v1alpha1.ConditionReconciling, Status: reconciling, Reason: reason, Message: message},
		{Type: v1alpha1.ConditionStalled, Status: stalled, Reason: reason, Message: message},
	}
}

// New makes one condition more.
func New(conditionType string, status bool, reason, message string) metav1.Condition {
	value := metav1.ConditionFalse
	if status {
		value = metav1.ConditionTrue
	}
	return metav1.Condition{Type: conditionType, Status: value, Reason: reason, Message: message}
}

// Refused reports whether conditions say that the API server rejects what is needed.
func Refused(present []metav1.Condition) bool {
	ready := meta.FindStatusCondition(present, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonRefused
}

// Merge returns the present conditions with the wanted ones set. The transition time moves only where the status
// changes. It changes neither argument.
func Merge(present, wanted []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	merged := append([]metav1.Condition(nil), present...)
	for _, condition := range wanted {
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = metav1.NewTime(now)
		condition.Message = Shorten(condition.Message)
		meta.SetStatusCondition(&merged, condition)
	}
	return merged
}

// Shorten cuts a message at 1024 bytes, between two characters.
func Shorten(message string) string {
	if len(message) <= maxMessageBytes {
		return message
	}
	cut := maxMessageBytes - len("…")
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "…"
}
