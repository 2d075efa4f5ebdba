// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HookLabel on a Job of a hook has the name of its CronJob.
const HookLabel = "lighterage.dev/hook"

// HookAnnotation on a Job of a hook has the UID of its Transfer.
const HookAnnotation = "lighterage.dev/hook-of"

// SourceHooks are what runs before and after the source is read, for example to quiesce a database. With copyMethod
// Snapshot or Clone the copy is made between them; with Direct the whole run lies between them.
// +kubebuilder:validation:XValidation:rule="has(self.before) || has(self.after)",message="hooks must have before, after or both"
type SourceHooks struct {
	// before runs to its end before the source is read.
	// +optional
	Before *BeforeHook `json:"before,omitempty"`
	// after runs when the copy has been made or, with copyMethod Direct, when the run has ended; also when before has
	// failed, when the run has failed, and when the Transfer is deleted.
	// +optional
	After *Hook `json:"after,omitempty"`
}

// HookFailurePolicy says what follows when a hook fails.
// +kubebuilder:validation:Enum=Fail;Continue
type HookFailurePolicy string

const (
	// HookFail ends the attempt. Nothing is read.
	HookFail HookFailurePolicy = "Fail"
	// HookContinue goes on as if the hook had succeeded.
	HookContinue HookFailurePolicy = "Continue"
)

// Hook is a Job made from a CronJob.
type Hook struct {
	// cronJob is the name of a suspended CronJob of the Transfer's namespace. A Job is made from its template, as kubectl
	// create job --from does. The platform team says which names there can be (values of the chart: hooks).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	CronJob string `json:"cronJob,omitempty"`
	// timeout is how long the Job may take. Then it is deleted, and the hook has failed. Absent: 5 minutes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be between 1s and 24h; write for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// BeforeHook is a Hook whose failure matters for what follows.
type BeforeHook struct {
	Hook `json:",inline"`
	// onFailure says what follows when the Job fails, does not end in time or cannot be made. Fail: the attempt ends, and
	// nothing is read. Continue: the run goes on.
	// +optional
	// +default="Fail"
	OnFailure HookFailurePolicy `json:"onFailure,omitempty"`
}

// HookState says how far a hook has come.
// +kubebuilder:validation:Enum=Pending;Starting;Running;Ending;Complete;Failed;Rejected;Skipped
type HookState string

const (
	// HookPending: it will run.
	HookPending HookState = "Pending"
	// HookStarting: its Job is being made.
	HookStarting HookState = "Starting"
	// HookRunning: its Job was made.
	HookRunning HookState = "Running"
	// HookEnding: its Job is being deleted, because it took too long or is not needed any more.
	HookEnding HookState = "Ending"
	// HookComplete: its Job is complete.
	HookComplete HookState = "Complete"
	// HookFailed: its Job failed or was deleted.
	HookFailed HookState = "Failed"
	// HookRejected: its Job could not be made.
	HookRejected HookState = "Rejected"
	// HookSkipped: there is none, or nothing that it would undo.
	HookSkipped HookState = "Skipped"
)

// HooksStatus is of the hooks of the present or last run.
//
// +structType=atomic
type HooksStatus struct {
	// runID of the run that they are for.
	// +optional
	RunID string `json:"runID,omitempty"`
	// attempt of the run that began them.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// before the source is read.
	// +optional
	Before HookStatus `json:"before,omitzero"`
	// after it was read.
	// +optional
	After HookStatus `json:"after,omitzero"`
}

// HookStatus is of one hook.
//
// +structType=atomic
type HookStatus struct {
	// cronJob that it is made from.
	// +optional
	CronJob string `json:"cronJob,omitempty"`
	// job is the name of its Job.
	// +optional
	Job string `json:"job,omitempty"`
	// state it is in.
	// +optional
	State HookState `json:"state,omitempty"`
	// startTime is when it was begun.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when its end was seen.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// message says why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// Ended reports whether nothing more follows of a hook.
func (s *HookStatus) Ended() bool {
	switch s.State {
	case HookComplete, HookFailed, HookRejected, HookSkipped:
		return true
	}
	return false
}
