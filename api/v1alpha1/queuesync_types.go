// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueueSyncMode says when what was acknowledged is on the volumes.
// +kubebuilder:validation:Enum=Interval;Always
type QueueSyncMode string

const (
	// QueueSyncInterval writes what was acknowledged to the volume within an interval.
	QueueSyncInterval QueueSyncMode = "Interval"
	// QueueSyncAlways acknowledges nothing before it is on the volume.
	QueueSyncAlways QueueSyncMode = "Always"
)

// QueueSync says when messages, and what is kept about them, survive a member's node and not its pod alone. Whatever it
// is, the end of a pod or of its process loses nothing that was acknowledged.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || self.mode == 'Interval'",message="interval is for mode Interval; leave it out with mode Always"
type QueueSync struct {
	// mode is Interval or Always. With Interval, a node that loses its power, or whose kernel fails, loses what its
	// member acknowledged in the last interval; with replicas 3 the other members have it, unless they fail as well
	// before the member has it from them again. With Always nothing that was acknowledged is lost, with one member or
	// most of three; each put waits for the volume, and a channel's batch once.
	// +optional
	// +default="Interval"
	Mode QueueSyncMode `json:"mode,omitempty"`
	// interval between two syncs, by default 2s. A longer one costs less where messages are got sooner than it ends.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('10m')",message="interval must be between 100ms and 10m; write for example 2s, or use mode Always"
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// QueueVolumeSync is how long members' syncs of their volumes take.
type QueueVolumeSync struct {
	// count of those that were measured.
	// +optional
	Count int64 `json:"count"`
	// failed ones ended with an error of the volume.
	// +optional
	Failed int64 `json:"failed"`
	// lastSeconds that it took, of the slowest member, as a decimal. Absent before the first.
	// +optional
	LastSeconds string `json:"lastSeconds,omitempty"`
	// highSeconds is the longest that it took since the start or the last reset, as a decimal.
	// +optional
	HighSeconds string `json:"highSeconds,omitempty"`
	// waitingSeconds is for how long the member that waits longest has waited for one that has not ended, as a decimal.
	// Absent when none waits.
	// +optional
	WaitingSeconds string `json:"waitingSeconds,omitempty"`
}
