// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations of a claim by which its users say when it may be copied.
const (
	// UseCopyTriggerAnnotation has copies of the claim wait for a trigger, whatever its value.
	UseCopyTriggerAnnotation = "lighterage.dev/use-copy-trigger"
	// CopyTriggerAnnotation is set by users: a value of 1 to 63 bytes that differs from the one that it had.
	CopyTriggerAnnotation = "lighterage.dev/copy-trigger"
	// LatestCopyStatusAnnotation is set by the manager: a CopyTriggerState.
	LatestCopyStatusAnnotation = "lighterage.dev/latest-copy-status"
	// LatestCopyTriggerAnnotation is set by the manager: the trigger of the last copy that was made.
	LatestCopyTriggerAnnotation = "lighterage.dev/latest-copy-trigger"
)

// CopyTriggerState says how far the copy of a claim is that waits for a trigger.
// +kubebuilder:validation:Enum=WaitingForTrigger;InProgress;Completed;Failed
type CopyTriggerState string

const (
	// CopyWaitingForTrigger: the trigger has not changed yet.
	CopyWaitingForTrigger CopyTriggerState = "WaitingForTrigger"
	// CopyInProgress: the copy is being made.
	CopyInProgress CopyTriggerState = "InProgress"
	// CopyCompleted: the copy has been made.
	CopyCompleted CopyTriggerState = "Completed"
	// CopyFailed: no copy is made any more for that trigger.
	CopyFailed CopyTriggerState = "Failed"
)

// CopyTriggerStatus is of the trigger that the copy of the present or last run waits for.
//
// +structType=atomic
type CopyTriggerStatus struct {
	// runID of the run that waits.
	// +optional
	RunID string `json:"runID,omitempty"`
	// attempt of the run that waits.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// state it is in.
	// +optional
	State CopyTriggerState `json:"state,omitempty"`
	// told is the state that the annotations of the claim were last given.
	// +optional
	Told CopyTriggerState `json:"told,omitempty"`
	// former is the trigger that the claim had when the attempt began to wait. It does not count.
	// +optional
	Former string `json:"former,omitempty"`
	// trigger that the copy is made for. Absent until there is one.
	// +optional
	Trigger string `json:"trigger,omitempty"`
	// startTime is when the attempt began to wait.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`
}
