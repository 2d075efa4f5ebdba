// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HistoryTransferAnnotation on a VolumeSnapshot of a destination has the name of the Transfer that wrote it; of one of
// another cluster peer/namespace/name.
const HistoryTransferAnnotation = "lighterage.dev/history-of"

// RecoveryPointAnnotation on a VolumeSnapshot of a destination has the time whose state of the source it holds.
const RecoveryPointAnnotation = "lighterage.dev/recovery-point"

// HistoryTimeAnnotation on a VolumeSnapshot of a destination has the time when its run was Complete.
const HistoryTimeAnnotation = "lighterage.dev/run-completed"

// DestinationSnapshot says which states of its claim a destination keeps.
type DestinationSnapshot struct {
	// volumeSnapshotClassName of the VolumeSnapshots. Absent: the default VolumeSnapshotClass of the volume's driver. Its
	// deletionPolicy must be Delete.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName,omitempty"`

	// retention says which of them are kept.
	// +required
	Retention SnapshotRetention `json:"retention,omitzero"`
}

// SnapshotRetention says which VolumeSnapshots are kept: those that at least one of its fields keeps. Hours, days,
// weeks (ISO 8601), months and years are those of UTC in which runs were Complete. Of each, the newest is kept. Those
// without a snapshot do not count. The newest snapshot of all is kept in any case.
// +kubebuilder:validation:XValidation:rule="(has(self.last) ? self.last : 0) + (has(self.hourly) ? self.hourly : 0) + (has(self.daily) ? self.daily : 0) + (has(self.weekly) ? self.weekly : 0) + (has(self.monthly) ? self.monthly : 0) + (has(self.yearly) ? self.yearly : 0) >= 1",message="retention must keep at least one; write for example daily: 7"
// +kubebuilder:validation:XValidation:rule="(has(self.last) ? self.last : 0) + (has(self.hourly) ? self.hourly : 0) + (has(self.daily) ? self.daily : 0) + (has(self.weekly) ? self.weekly : 0) + (has(self.monthly) ? self.monthly : 0) + (has(self.yearly) ? self.yearly : 0) <= 100",message="retention must not keep more than 100 in all; lower some of last, hourly, daily, weekly, monthly and yearly"
type SnapshotRetention struct {
	// last is how many of the newest are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Last int32 `json:"last,omitempty"`
	// hourly is for how many hours the newest of each is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Hourly int32 `json:"hourly,omitempty"`
	// daily is the same for days.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Daily int32 `json:"daily,omitempty"`
	// weekly is the same for weeks, which begin on Monday.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weekly int32 `json:"weekly,omitempty"`
	// monthly is the same for months.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Monthly int32 `json:"monthly,omitempty"`
	// yearly is the same for years.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Yearly int32 `json:"yearly,omitempty"`
}

// DeliverySnapshot is what history of the claim a Transfer of another cluster asks for.
type DeliverySnapshot struct {
	DestinationSnapshot `json:",inline"`

	// transferUID is the UID of the Transfer in its own cluster. Of one that was deleted and created again nothing is
	// removed for the new one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z]([-0-9A-Za-z]*[0-9A-Za-z])?$`
	TransferUID string `json:"transferUID,omitempty"`
}

// Total is how many are kept at most, but for the newest of all.
func (r SnapshotRetention) Total() int {
	total := 0
	for _, n := range []int32{r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly, r.Yearly} {
		total += int(n)
	}
	return total
}

// SnapshotState says how far a VolumeSnapshot of a destination has come.
// +kubebuilder:validation:Enum=Pending;Taking;Taken;Ready;Failed;Removing
type SnapshotState string

const (
	// SnapshotPending: nothing has been made.
	SnapshotPending SnapshotState = "Pending"
	// SnapshotTaking: it is being made, and the driver has not taken it. No run writes to the destination meanwhile.
	SnapshotTaking SnapshotState = "Taking"
	// SnapshotTaken: the driver has taken it, and it cannot be restored yet, for example because it is being uploaded.
	SnapshotTaken SnapshotState = "Taken"
	// SnapshotReady: it can be restored.
	SnapshotReady SnapshotState = "Ready"
	// SnapshotFailed: it was not ready in time. It is removed when a later one is Ready or Failed.
	SnapshotFailed SnapshotState = "Failed"
	// SnapshotRemoving: it is being removed.
	SnapshotRemoving SnapshotState = "Removing"
)

// SnapshotStatus is of a VolumeSnapshot of the destination after a Complete run.
//
// +structType=atomic
type SnapshotStatus struct {
	// name of the VolumeSnapshot, in the namespace of the destination's claim.
	// +required
	Name string `json:"name,omitempty"`
	// runID of the run.
	// +optional
	RunID string `json:"runID,omitempty"`
	// time when the run was Complete.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// recoveryPoint is the time whose state of the source it holds. A Delivery does not know it.
	// +optional
	RecoveryPoint *metav1.Time `json:"recoveryPoint,omitempty"`
	// state it is in.
	// +optional
	State SnapshotState `json:"state,omitempty"`
	// startTime is when it was begun. The driver has 10 minutes from then on to take it, and 24 hours until it is ready.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// size that a claim needs to be restored from it, as the driver tells it.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}
