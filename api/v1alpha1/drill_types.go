// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralVolume is a volume that is made for one pod and goes with it: a generic ephemeral volume, whose claim
// Kubernetes makes and removes.
type EphemeralVolume struct {
	// size of the volume. Quotas of the namespace on storage and claims count it while the pod exists.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="size must be between 1Mi and 1Pi; write for example 100Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName of the volume. Absent: the default StorageClass. It must provision volumes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	StorageClassName string `json:"storageClassName,omitempty"`
}

// InflateMode says what may inflate.
// +kubebuilder:validation:Enum=Any;Software
type InflateMode string

const (
	// InflateAny is what proves fastest, an accelerator included.
	InflateAny InflateMode = "Any"
	// InflateSoftware is software only, on every node.
	InflateSoftware InflateMode = "Software"
)

// ScrubMode says how data are verified where they rest.
// +kubebuilder:validation:Enum=Checksums;Inflate
type ScrubMode string

const (
	// ScrubChecksums compares what rests with its checksums, and inflates nothing.
	ScrubChecksums ScrubMode = "Checksums"
	// ScrubInflate also expands everything, and compares the plain bytes.
	ScrubInflate ScrubMode = "Inflate"
)

// DrillSource is the copy that is to be restored or verified: exactly one of objectStore and persistentVolumeClaim.
// +kubebuilder:validation:XValidation:rule="has(self.objectStore) != has(self.persistentVolumeClaim)",message="source must have exactly one of objectStore and persistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) == has(self.form)",message="form says how files rest in a persistentVolumeClaim; set it to Gzip, Zstd or Archive beside one, and remove it beside an objectStore"
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.objectStore) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive beside a persistentVolumeClaim, or remove encryption"
type DrillSource struct {
	// objectStore in the Drill's namespace, and the path that Transfers write to.
	// +optional
	ObjectStore ObjectStorePath `json:"objectStore,omitzero"`

	// persistentVolumeClaim in the Drill's namespace, with files in a form, or in archives. It is verified where it
	// rests, by spec.scrub, and mounted read-only.
	// +optional
	PersistentVolumeClaim PersistentVolumeClaimPath `json:"persistentVolumeClaim,omitzero"`

	// form of the files in the persistentVolumeClaim: Gzip, Zstd or Archive. With Gzip and Zstd files with other names
	// have no checksum; with Archive only the archives in the path are verified that a Transfer with that form wrote.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Gzip', 'Zstd', 'Archive']",message="a claim rests in form Gzip, Zstd or Archive; set one of these"
	Form RestingForm `json:"form,omitempty"`

	// encryption of the archives. With spec.scrub: Checksums they are verified without an identity.
	// +optional
	Encryption *ArchiveDecryption `json:"encryption,omitempty"`
}

// DrillObjective is what is expected of a restore. What is absent does not matter.
type DrillObjective struct {
	// maxAge is how old the copy may be when the drill ends: the time since its index was written, which the last run
	// does that writes the copy.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8784h')",message="maxAge must be between 1m and 8784h; write for example 26h"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// maxDuration is how long the restore may take, from the start of the drill to the last file that is verified. Waits
	// for a quota, a node, the volume and further attempts count.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="maxDuration must be between 1s and 8784h; write for example 4h"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`

	// minBytesPerSecond is how many plain bytes the attempt that succeeds has to restore each second. With scrub: bytes
	// as they rest, that are verified.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="minBytesPerSecond must be between 1 and 1Pi; write for example 100Mi"
	MinBytesPerSecond *resource.Quantity `json:"minBytesPerSecond,omitempty"`

	// maxCPUSecondsPerGiB is how many seconds of CPU time that attempt may take for each GiB of plain bytes:
	// cpu.secondsPerGiB of the record. With scrub: of bytes as they rest.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1m')) >= 0 && quantity(string(self)).compareTo(quantity('1M')) <= 0",message="maxCPUSecondsPerGiB must be between 0.001 and 1M; write for example 2.5"
	MaxCPUSecondsPerGiB *resource.Quantity `json:"maxCPUSecondsPerGiB,omitempty"`
}

// DrillSpec is what is to be proved, and when.
//
// +kubebuilder:validation:XValidation:rule="has(self.volume) != has(self.scrub)",message="a drill restores into a volume, or verifies data where they rest; set exactly one of volume and scrub"
// +kubebuilder:validation:XValidation:rule="!has(self.source.persistentVolumeClaim) || has(self.scrub)",message="a persistentVolumeClaim is verified where it rests; set scrub and remove volume, or use an objectStore as source"
// +kubebuilder:validation:XValidation:rule="!has(self.scrub) || !has(self.include)",message="scrub verifies everything; remove include, or use a narrower path"
// +kubebuilder:validation:XValidation:rule="!has(self.scrub) || self.scrub != 'Checksums' || !has(self.inflate) || self.inflate == 'Any'",message="with scrub: Checksums nothing is inflated; remove inflate, or use scrub: Inflate"
// +kubebuilder:validation:XValidation:rule="!has(self.source.persistentVolumeClaim) || has(self.source.form) && self.source.form == 'Archive' || !has(self.objective) || !has(self.objective.maxAge)",message="no index says when the files of a claim were written, unless they are in archives; remove objective.maxAge"
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source",message="source is immutable, so that the history is about one copy; delete this Drill and create one with another name"
// +kubebuilder:validation:XValidation:rule="!has(self.objective) || !has(self.objective.maxDuration) || duration(self.objective.maxDuration) <= duration(has(self.deadline) ? self.deadline : '6h')",message="objective.maxDuration must not be longer than deadline, at which a drill is ended; raise deadline, which is 6h by default"
// +kubebuilder:validation:XValidation:rule="!has(self.source.encryption) || !has(self.scrub) || self.scrub != 'Checksums'",message="with scrub: Checksums encrypted archives are verified as they rest, which needs no identity; remove source.encryption, or use scrub: Inflate"
type DrillSpec struct {
	// source is immutable.
	// +required
	Source DrillSource `json:"source,omitzero"`

	// include says which files are restored; absent: all. Patterns are those of a Transfer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.exists(p, p.startsWith('!'))",message="an include pattern cannot begin with \"!\"; write \"\\!\" for the character"
	Include []string `json:"include,omitempty"`

	// volume that is restored into. Each attempt has one of its own, which is removed with its pod. Exactly one of
	// volume and scrub is needed.
	// +optional
	Volume EphemeralVolume `json:"volume,omitzero"`

	// scrub verifies the data where they rest, in place of restoring them, and writes nothing. Checksums: what rests is
	// compared with its checksums, and nothing is inflated. Inflate: everything is expanded and compared as well. What
	// is found wrong is looked at again first, since somebody may be writing there.
	// +optional
	Scrub ScrubMode `json:"scrub,omitempty"`

	// inflate: Software restores, or scrubs, without accelerators, also on a node that has one.
	// +optional
	// +default="Any"
	Inflate InflateMode `json:"inflate,omitempty"`

	// schedule starts drills by the clock. Without one there is a drill when the Drill is created. The annotation
	// lighterage.dev/run starts one at any time. Two never overlap: a time that comes while one is under way is missed,
	// and counted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.cron) && !has(self.windows)",message="drills begin at times of cron, and do not pause; set cron and remove windows"
	Schedule *TransferSchedule `json:"schedule,omitempty"`

	// suspend keeps drills from starting. One that is under way continues. Times of the schedule that pass meanwhile are
	// not made up for.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// objective that the restore is measured against.
	// +optional
	Objective *DrillObjective `json:"objective,omitempty"`

	// deadline of each drill, from its start. One that has not ended by then is ended, with the reason it waited for.
	// +optional
	// +default="6h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8784h')",message="deadline must be between 1m and 8784h; write for example 6h"
	Deadline *metav1.Duration `json:"deadline,omitempty"`
}

// DrillRecord is one drill.
//
// +structType=atomic
type DrillRecord struct {
	// id of the drill, unique for the Drill.
	// +required
	ID string `json:"id,omitempty"`
	// startTime of the drill.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// completionTime of the drill; absent while it is under way.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// reason it ended with, which is that of the condition Recoverable. Absent while it is under way.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message that came with it.
	// +optional
	Message string `json:"message,omitempty"`
	// duration from startTime to completionTime.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// copyTime is when the index of the copy was written. Absent if nothing was read, and of a bucket without an index.
	// +optional
	CopyTime *metav1.Time `json:"copyTime,omitempty"`
	// files that were restored and verified. With spec.scrub: objects and archives, or files as they rest, that are as
	// they should be.
	// +optional
	Files int64 `json:"files,omitempty"`
	// bytes of those files. With spec.scrub: as they rest.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// bytesPerSecond is the rate of the last attempt, in plain bytes. With spec.scrub: in bytes as they rest.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// cpu of that attempt.
	// +optional
	CPU *CPUStatus `json:"cpu,omitempty"`
	// decompression says what inflated. With spec.inflate Software its hardware is 0, and with spec.scrub Checksums
	// everything is.
	// +optional
	Decompression *DecompressionStatus `json:"decompression,omitempty"`
	// findings are what a scrub found, by kind, with some of the names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Findings []Omission `json:"findings,omitempty"`
	// attempts that the restore took.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// node of the last attempt.
	// +optional
	Node string `json:"node,omitempty"`
	// architecture of that node.
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// DrillStatus is what was proved.
type DrillStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, Recoverable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// lastRunRequest is the value of the annotation lighterage.dev/run that was acted upon last.
	// +optional
	LastRunRequest string `json:"lastRunRequest,omitempty"`
	// schedule of drills.
	// +optional
	Schedule *ScheduleStatus `json:"schedule,omitempty"`
	// transferName is the Transfer that restores, while a drill is under way. It is deleted at the end.
	// +optional
	TransferName string `json:"transferName,omitempty"`
	// run is the present or last drill.
	// +optional
	Run *DrillRecord `json:"run,omitempty"`
	// lastRecoverableTime is when the last drill ended that restored the copy, or found it whole, within the objective.
	// +optional
	LastRecoverableTime *metav1.Time `json:"lastRecoverableTime,omitempty"`
	// history of drills that ended, newest first, at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []DrillRecord `json:"history,omitempty"`
}

// Drill proves on a schedule that what Transfers have put into an ObjectStore can be restored: a Transfer restores it
// into an ephemeral volume, verifies every file and is deleted. With spec.scrub it is verified where it rests.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="Store",type=string,JSONPath=`.spec.source.objectStore.name`
// +kubebuilder:printcolumn:name="Recoverable",type=string,JSONPath=`.status.conditions[?(@.type=="Recoverable")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Recoverable")].reason`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastRecoverableTime`,description="time since the last drill that restored the copy within the objective"
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.history[0].duration`
// +kubebuilder:printcolumn:name="Rate",type=integer,JSONPath=`.status.history[0].bytesPerSecond`,description="plain bytes per second"
// +kubebuilder:printcolumn:name="CPU/GiB",type=string,JSONPath=`.status.history[0].cpu.secondsPerGiB`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.schedule.nextTime`,priority=1
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.source.persistentVolumeClaim.claimName`,priority=1
// +kubebuilder:printcolumn:name="Scrub",type=string,JSONPath=`.spec.scrub`,priority=1
type Drill struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be proved, and when.
	// +required
	Spec DrillSpec `json:"spec,omitzero"`
	// status is what was proved.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status DrillStatus `json:"status,omitzero"`
}

// DrillList is a list of Drills.
// +kubebuilder:object:root=true
type DrillList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Drill `json:"items"`
}
