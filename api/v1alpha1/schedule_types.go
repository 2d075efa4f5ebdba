// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TransferSchedule says when runs start.
type TransferSchedule struct {
	// cron says when, as for a CronJob: minute, hour, day of month, month and day of week, or a word such as @hourly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ =]+( +[^ =]+){4})$')",message="cron must have five fields (minute, hour, day of month, month, day of week) or be a word such as @daily; write for example \"0 2 * * *\", and the time zone in timeZone"
	Cron string `json:"cron,omitempty"`

	// timeZone that cron is meant in, as the tz database names it.
	// +optional
	// +default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$')",message="timeZone must be a name of the tz database; write for example Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`

	// jitter is the most that a start is put off, so that Transfers with one schedule do not all start at once. How
	// much it is follows from the Transfer and the time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="jitter must be between 0s and 24h; write for example 5m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`
}

// ScheduleStatus is what the schedule did and will do.
//
// +structType=atomic
type ScheduleStatus struct {
	// cron in force.
	// +optional
	Cron string `json:"cron,omitempty"`
	// timeZone in force.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// lastTime of the schedule that has passed, whether a run started or not, or when the schedule was set. Jitter is
	// not in it.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// nextTime a run is to start, jitter included. Absent while suspended.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// missedRuns counts the times that passed without a run because one was under way, could not begin, or the manager
	// was away.
	// +optional
	MissedRuns int64 `json:"missedRuns,omitempty"`
}
