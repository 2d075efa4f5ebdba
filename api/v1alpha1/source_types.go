// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CopyMethod says which state of a claim a run reads.
// +kubebuilder:validation:Enum=Direct;Snapshot;Clone
type CopyMethod string

const (
	// CopyDirect reads the claim itself, while others may write to it.
	CopyDirect CopyMethod = "Direct"
	// CopySnapshot reads a claim that is made from a VolumeSnapshot.
	CopySnapshot CopyMethod = "Snapshot"
	// CopyClone reads a claim that the CSI driver makes as a clone.
	CopyClone CopyMethod = "Clone"
)

// SourceCopy says how a claim is read.
type SourceCopy struct {
	// copyMethod says which state of the claim a run reads. Direct: the claim itself, whose files may change meanwhile.
	// Snapshot: a VolumeSnapshot, taken when the run begins, from which a claim is made. Clone: a clone of the claim, made
	// by its CSI driver. Snapshot and Clone are of one point in time, which all attempts of the run read; they need a CSI
	// driver that can make them, and the right of the manager to (values of the chart: pointInTime.enabled). The copy is
	// removed when the run ends. A change takes effect with the next run, or the next attempt of a run without a copy.
	// +optional
	// +default="Direct"
	CopyMethod CopyMethod `json:"copyMethod,omitempty"`

	// snapshotClassName of the VolumeSnapshot. Absent: the default VolumeSnapshotClass of the volume's driver. Its
	// deletionPolicy must be Delete.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SnapshotClassName string `json:"snapshotClassName,omitempty"`

	// stagedStorageClassName is the StorageClass of the claim that is read in place of the source. It must be of the same
	// driver, and its reclaimPolicy must be Delete. Absent: that of the source.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StagedStorageClassName string `json:"stagedStorageClassName,omitempty"`

	// stagedAccessModes of that claim. Absent: those of the source. Some drivers make a ReadOnlyMany claim of a snapshot
	// at once and copy all data otherwise.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadOnlyMany;ReadWriteMany;ReadWriteOncePod
	StagedAccessModes []corev1.PersistentVolumeAccessMode `json:"stagedAccessModes,omitempty"`

	// stagingDeadline is how long the driver may take until the copy can be mounted. Then the copy is removed, and another
	// attempt follows after a back-off. The time that the scheduler looks for a node does not count.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('168h')",message="stagingDeadline must be between 10s and 168h; write for example 10m"
	StagingDeadline *metav1.Duration `json:"stagingDeadline,omitempty"`

	// hooks run before and after the source is read.
	// +optional
	Hooks *SourceHooks `json:"hooks,omitempty"`
}

// TransferSource is what a Transfer reads: exactly one of its fields.
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) != has(self.objectStore)",message="source must have exactly one of persistentVolumeClaim and objectStore"
// +kubebuilder:validation:XValidation:rule="!has(self.objectStore) || !has(self.copyMethod) || self.copyMethod == 'Direct'",message="an objectStore is read directly; remove copyMethod"
// +kubebuilder:validation:XValidation:rule="!has(self.snapshotClassName) || has(self.copyMethod) && self.copyMethod == 'Snapshot'",message="snapshotClassName means something only with copyMethod: Snapshot; add that, or remove snapshotClassName"
// +kubebuilder:validation:XValidation:rule="!has(self.stagedStorageClassName) && !has(self.stagedAccessModes) && !has(self.stagingDeadline) || has(self.copyMethod) && self.copyMethod != 'Direct'",message="stagedStorageClassName, stagedAccessModes and stagingDeadline mean something only with copyMethod: Snapshot or Clone; add that, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeGroupSnapshotName) || has(self.copyMethod) && self.copyMethod == 'Snapshot' && !has(self.snapshotClassName) && !has(self.hooks)",message="volumeGroupSnapshotName needs copyMethod: Snapshot, and the snapshot is taken already; remove snapshotClassName and hooks"
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.objectStore) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive beside a persistentVolumeClaim, or remove encryption"
// +kubebuilder:validation:XValidation:rule="!has(self.namespace) || has(self.peer)",message="a claim of another namespace of this cluster is read by a Transfer there; add peer for another cluster, or remove namespace and create the Transfer there"
// +kubebuilder:validation:XValidation:rule="!has(self.peer) || has(self.persistentVolumeClaim) && !has(self.form) && !has(self.hooks) && (!has(self.copyMethod) || self.copyMethod == 'Direct')",message="of another cluster the files of a persistentVolumeClaim are read directly; remove objectStore, form, hooks and copyMethod, or create a Transfer with them in that cluster"
type TransferSource struct {
	// peer names the Peer, the other cluster that has the claim. Absent: this cluster. With it the Transfer pulls: the
	// manager of that cluster makes a Transfer there that sends to the destination, which must be a claim in this
	// namespace. A PeerGrant with the verb Read in the source's namespace must allow it. Schedule, windows, pause and
	// suspend are this Transfer's; CompressionPolicy, quotas and limits those of that cluster. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="peer of source is immutable; delete this Transfer and create one with another name"
	Peer string `json:"peer,omitempty"`

	// namespace of the claim in the cluster of peer. Defaults to the Transfer's own. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace of source is immutable; delete this Transfer and create one with another name"
	Namespace string `json:"namespace,omitempty"`

	// persistentVolumeClaim in the Transfer's namespace, or in that of the Peer's cluster.
	// +optional
	PersistentVolumeClaim PersistentVolumeClaimPath `json:"persistentVolumeClaim,omitzero"`

	// objectStore in the Transfer's namespace. The destination must be in this namespace, too. Into a claim with
	// volumeMode: Block it must hold the file volume.img and nothing else.
	// +optional
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`

	// form in which files of the claim may rest. Absent or Files: all files are sent as they are. With Gzip, a.csv.gz
	// that has its index beside it, .a.csv.gz.lgci, is sent as the file a.csv, and with Zstd a.csv.zst: its blocks
	// travel as they rest, to claims and into an objectStore, and nobody compresses them again. They are inflated only
	// where destination.form is another one: at the end of the way if that is a claim with plain files, else by the agent
	// that reads. Filters see a.csv. Files without an index are sent as they are. With Archive the files in the archives
	// that a Transfer with that form wrote into this path are sent, and nothing else; the destination must be a claim.
	// There is no via. From an objectStore Gzip and Zstd say that objects with an index beside them are plain files; it is
	// needed only where no Transfer with that form wrote the prefix.
	// +optional
	Form RestingForm `json:"form,omitempty"`

	// encryption of the archives in an objectStore, or in a claim with form: Archive, which a Transfer with
	// destination.encryption wrote.
	// +optional
	Encryption *ArchiveDecryption `json:"encryption,omitempty"`

	SourceCopy `json:",inline"`

	// volumeGroupSnapshotName is a VolumeGroupSnapshot of the Transfer's namespace. Each run reads the VolumeSnapshot that
	// it has of the claim, in place of one of its own, so that several Transfers read one moment. It needs copyMethod:
	// Snapshot, and is not removed by the Transfer. TransferSets with spec.group set it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeGroupSnapshotName string `json:"volumeGroupSnapshotName,omitempty"`
}

// StagedState says how far the copy of a source has come.
// +kubebuilder:validation:Enum=Preparing;Snapshotting;Provisioning;Ready;Removing
type StagedState string

const (
	// StagedPreparing: classes and permissions are being checked. Nothing has been made.
	StagedPreparing StagedState = "Preparing"
	// StagedSnapshotting: the VolumeSnapshot is being taken.
	StagedSnapshotting StagedState = "Snapshotting"
	// StagedProvisioning: the driver makes the volume of the claim, or waits until the pod that mounts it has a node.
	StagedProvisioning StagedState = "Provisioning"
	// StagedReady: the claim is bound.
	StagedReady StagedState = "Ready"
	// StagedRemoving: claim and VolumeSnapshot are being removed.
	StagedRemoving StagedState = "Removing"
)

// StagedStatus is of the copy of the source that the attempts of a run read.
//
// +structType=atomic
type StagedStatus struct {
	// method it is made by.
	// +optional
	Method CopyMethod `json:"method,omitempty"`
	// runID of the run that it is for.
	// +optional
	RunID string `json:"runID,omitempty"`
	// name of the claim and, with the method Snapshot, of the VolumeSnapshot, unless that is of a group.
	// +optional
	Name string `json:"name,omitempty"`
	// volumeGroupSnapshotName is the VolumeGroupSnapshot that has the VolumeSnapshot of the claim.
	// +optional
	VolumeGroupSnapshotName string `json:"volumeGroupSnapshotName,omitempty"`
	// state it is in.
	// +optional
	State StagedState `json:"state,omitempty"`
	// startTime is when it was begun.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`
	// pointInTime is the time whose state it has: when the VolumeSnapshot was taken, or the claim of a clone created.
	// Absent until then.
	// +optional
	PointInTime *metav1.Time `json:"pointInTime,omitempty"`
	// size of the claim.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// TransferObjective is what is expected of a Transfer.
type TransferObjective struct {
	// maxAge is how old status.recoveryPoint may be. The condition WithinObjective shows whether it is younger. Nothing
	// else depends on it.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8784h')",message="maxAge must be between 1m and 8784h; write for example 26h"
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
}
