// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberPolicy says what becomes of a Transfer that a TransferSet made when the set does not want it any more.
// +kubebuilder:validation:Enum=Delete;Retain
type MemberPolicy string

const (
	// MembersDelete: it is deleted with the set, or when its claim is deleted or no longer selected.
	MembersDelete MemberPolicy = "Delete"
	// MembersRetain: it stays and goes on as its spec says.
	MembersRetain MemberPolicy = "Retain"
)

// TransferSetSource is how each claim is read.
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive, or remove encryption"
// +kubebuilder:validation:XValidation:rule="!has(self.snapshotClassName) || has(self.copyMethod) && self.copyMethod == 'Snapshot'",message="snapshotClassName means something only with copyMethod: Snapshot; add that, or remove snapshotClassName"
// +kubebuilder:validation:XValidation:rule="!has(self.stagedStorageClassName) && !has(self.stagedAccessModes) && !has(self.stagingDeadline) || has(self.copyMethod) && self.copyMethod != 'Direct'",message="stagedStorageClassName, stagedAccessModes and stagingDeadline mean something only with copyMethod: Snapshot or Clone; add that, or remove them"
type TransferSetSource struct {
	// path of the directory in each claim, from the root of the volume. It is immutable.
	// +optional
	// +default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute, from the root of the volume; write for example /data"
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..' || p == '.')",message="path must not contain . or .. elements; name the directory itself"
	Path string `json:"path,omitempty"`

	// form in which files of the claims may rest, as in a Transfer.
	// +optional
	Form RestingForm `json:"form,omitempty"`

	// encryption of the archives in the claims, as in a Transfer. With spec.namespaceSelector the Secret is one of each
	// claim's namespace.
	// +optional
	Encryption *ArchiveDecryption `json:"encryption,omitempty"`

	SourceCopy `json:",inline"`
}

// TransferSetClaim is the claim that a member writes, by the name of the claim that it reads.
type TransferSetClaim struct {
	// namePrefix is what the names of the claims begin with, before the name of the source. Absent: both have the same
	// name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9.]*$`
	NamePrefix string `json:"namePrefix,omitempty"`

	// path of the directory in each claim, from the root of the volume.
	// +optional
	// +default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute, from the root of the volume; write for example /data"
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..' || p == '.')",message="path must not contain . or .. elements; name the directory itself"
	Path string `json:"path,omitempty"`

	// template of the claims, each sized by its source, as in a Transfer. Absent: the claims must exist.
	// +optional
	Template *ClaimTemplate `json:"template,omitempty"`
}

// TransferSetDestination is where members write.
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive, or remove encryption"
// +kubebuilder:validation:XValidation:rule="!has(self.records) || has(self.form) && self.form in ['Gzip', 'Zstd']",message="the index of a file in a form knows its records; set form: Gzip or Zstd, or remove records"
// +kubebuilder:validation:XValidation:rule="!has(self.objectStore) || !has(self.persistentVolumeClaim) && !has(self.peer) && !has(self.namespace)",message="an objectStore is one of the TransferSet's namespace, in place of claims; remove persistentVolumeClaim, peer and namespace"
// +kubebuilder:validation:XValidation:rule="has(self.objectStore) || has(self.peer) || has(self.namespace) || has(self.persistentVolumeClaim) && has(self.persistentVolumeClaim.namePrefix)",message="a claim is not moved to itself; add peer, namespace, objectStore or persistentVolumeClaim.namePrefix"
// +kubebuilder:validation:XValidation:rule="!has(self.via) || has(self.peer)",message="via is a way to another cluster; add peer or remove via"
type TransferSetDestination struct {
	// peer names the Peer, the other cluster. Absent: the destinations are in this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Peer string `json:"peer,omitempty"`

	// via is how the other cluster is reached, as in a Transfer.
	// +optional
	Via *TransferVia `json:"via,omitempty"`

	// namespace of the claims in the destination's cluster. Defaults to the TransferSet's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// persistentVolumeClaim says which claims are written. Absent: those with the names of the sources, from their roots.
	// They must exist unless there is a template, and PeerGrants must allow the members, as with any Transfer.
	// +optional
	PersistentVolumeClaim *TransferSetClaim `json:"persistentVolumeClaim,omitempty"`

	// objectStore in the TransferSet's namespace. Each member writes below a directory with its claim's name. With
	// spec.namespaceSelector it is one of the claim's namespace, and that directory is in one with the namespace's name.
	// +optional
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`

	// form in which files rest, as in a Transfer.
	// +optional
	Form RestingForm `json:"form,omitempty"`

	// records that the files consist of, as in a Transfer.
	// +optional
	Records *FileRecords `json:"records,omitempty"`

	// encryption of archives, as in a Transfer. All members write for the same recipients, and each reads its indexes
	// with a key of its own.
	// +optional
	Encryption *ArchiveEncryption `json:"encryption,omitempty"`
}

// TransferSetTemplate is what the members have in common. Fields are those of a Transfer's spec; what is absent is left
// to the defaults there, and what a Transfer rejects is shown in status.failures. A change reaches members that exist.
//
// +kubebuilder:validation:XValidation:rule="!has(self.allowEmptySource) || !self.allowEmptySource || (has(self.delete) && self.delete)",message="allowEmptySource means something only with delete: true; add that, or remove allowEmptySource"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.form) || self.source.form == 'Files' || !has(self.destination.via) && (self.source.form != 'Archive' || !has(self.destination.objectStore))",message="what goes through an object store is sent as files are, and archives of claims are restored into claims only; remove source.form or destination.via, or use claims as destinations"
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.deadline.time) || !has(self.schedule) || !has(self.schedule.cron)",message="deadline.time is one time; use deadline.within with schedule.cron"
// +kubebuilder:validation:XValidation:rule="self.destination == oldSelf.destination",message="destination is immutable; create a TransferSet with another name, and delete this one"
// +kubebuilder:validation:XValidation:rule="(has(self.source) && has(self.source.path) ? self.source.path : '/') == (has(oldSelf.source) && has(oldSelf.source.path) ? oldSelf.source.path : '/')",message="source.path is immutable; create a TransferSet with another name, and delete this one"
type TransferSetTemplate struct {
	// source says how the claims are read. Absent: from their roots, directly.
	// +optional
	Source *TransferSetSource `json:"source,omitempty"`

	// destination is immutable.
	// +required
	Destination TransferSetDestination `json:"destination,omitzero"`

	// include says what is moved, by patterns as in a Transfer. Absent: everything.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Include []string `json:"include,omitempty"`

	// exclude says what of that is not moved, by patterns as in a Transfer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Exclude []string `json:"exclude,omitempty"`

	// delete removes at the destination what the source does not have, as in a Transfer.
	// +optional
	Delete bool `json:"delete,omitempty"`

	// allowEmptySource lets delete empty a destination, as in a Transfer.
	// +optional
	AllowEmptySource bool `json:"allowEmptySource,omitempty"`

	// compression overrides the CompressionPolicy that applies.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// verify says how the destination is checked before a run is Complete. Absent: Digest.
	// +optional
	Verify VerifyMode `json:"verify,omitempty"`

	// receipt has both clusters sign what was moved, as in a Transfer.
	// +optional
	Receipt bool `json:"receipt,omitempty"`

	// checkpointInterval is how many bytes of each stream may be unsafe at the destination. Absent: 64Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="checkpointInterval must be between 1Mi and 16Gi; write for example 64Mi"
	CheckpointInterval *resource.Quantity `json:"checkpointInterval,omitempty"`

	// streams is how many connections of a member carry data at once, as in a Transfer.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Streams int32 `json:"streams,omitempty"`

	// bandwidthLimit of each member, in bytes per second. A DataQuota limits all together.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('256Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="bandwidthLimit must be between 256Ki and 1Pi bytes per second; write for example 200Mi"
	BandwidthLimit *resource.Quantity `json:"bandwidthLimit,omitempty"`

	// maxAttempts bounds the failed tries of one run. Absent: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// schedule starts further runs of each member by the clock. The first run of a member starts when the set makes it.
	// +optional
	Schedule *TransferSchedule `json:"schedule,omitempty"`

	// objective of each member.
	// +optional
	Objective *TransferObjective `json:"objective,omitempty"`

	// deadline of the runs of each member.
	// +optional
	Deadline *TransferDeadline `json:"deadline,omitempty"`

	// podTemplate adjusts the pods of the sending agents. Privilege takes the consent of the namespace, as in a Transfer.
	// +optional
	PodTemplate *AgentPodTemplate `json:"podTemplate,omitempty"`
}

// TransferSetGroup has the members of a TransferSet read one moment.
type TransferSetGroup struct {
	// volumeGroupSnapshotClassName of the VolumeGroupSnapshots. The class must be of the driver of all claims, and its
	// deletionPolicy must be Delete.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeGroupSnapshotClassName string `json:"volumeGroupSnapshotClassName,omitempty"`
}

// TransferSetSpec says which claims are moved, and how.
// +kubebuilder:validation:XValidation:rule="!has(self.group) || has(self.template.source) && has(self.template.source.copyMethod) && self.template.source.copyMethod == 'Snapshot' && !has(self.template.source.snapshotClassName) && !has(self.template.source.hooks)",message="group needs template.source.copyMethod: Snapshot, and takes the snapshots of all members at once; remove template.source.snapshotClassName and hooks, or group"
// +kubebuilder:validation:XValidation:rule="!has(self.group) || !has(self.selector.matchExpressions)",message="claims of a VolumeGroupSnapshot are found by matchLabels only; give the claims a label and remove selector.matchExpressions"
// +kubebuilder:validation:XValidation:rule="has(self.namespaceSelector) == has(oldSelf.namespaceSelector)",message="namespaceSelector can be changed, and neither added nor removed; create a TransferSet with another name, and delete this one"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceSelector) || !has(self.template.destination.namespace)",message="with namespaceSelector each namespace is moved to that of its own name; remove template.destination.namespace"
type TransferSetSpec struct {
	// namespaceSelector finds namespaces by their labels, and has the TransferSet move the claims of these in place of
	// those of its own. {} finds all. It makes a TransferSet of its name, with the rest of its spec, in each of them:
	// these make the Transfers. It is accepted only in the operator's namespace, of users who may create Transfers in all
	// namespaces. The operator's namespace, and those that are being deleted, are never found.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// selector of claims of the namespace by their labels. {} selects all. Copies that Lighterage made of
	// sources, claims of Queues, those that are being deleted, and, where the destinations are in the same namespace,
	// those whose names begin with namePrefix are never selected.
	// +required
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// template of the Transfers that the set makes, its members: one for each claim that is selected.
	// +required
	Template TransferSetTemplate `json:"template,omitzero"`

	// maxConcurrent is how many members may exist whose first run has neither completed nor failed. The others are made
	// one by one as places become free, in the order of the claims' names. Later runs do not count: a DataQuota limits
	// what runs at once. With namespaceSelector so many of each namespace may exist.
	// +optional
	// +default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// memberPolicy says what becomes of members when the set is deleted, and when a claim is deleted or no longer
	// selected. What they have written at the destination stays in any case.
	// +optional
	// +default="Delete"
	MemberPolicy MemberPolicy `json:"memberPolicy,omitempty"`

	// suspend keeps members from being made, and sets suspend of those that exist.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// group has all members read one moment: the TransferSet makes a VolumeGroupSnapshot of all selected claims when the
	// first ones are selected, at each time of template.schedule.cron, and when its annotation lighterage.dev/run gets
	// another value, and then has each member run once. It is removed when all have. The selector must find no other
	// claims of the namespace, and none with a copy trigger. A claim that is created later joins with the next one. With
	// namespaceSelector there is one for each namespace. Absent: each member reads its claim by itself.
	// +optional
	Group *TransferSetGroup `json:"group,omitempty"`
}

// GroupSnapshotState says how far the VolumeGroupSnapshot of a TransferSet has come.
// +kubebuilder:validation:Enum=Snapshotting;Ready;Complete;Failed
type GroupSnapshotState string

const (
	// GroupSnapshotting: it is being taken. No member runs.
	GroupSnapshotting GroupSnapshotState = "Snapshotting"
	// GroupReady: members read it.
	GroupReady GroupSnapshotState = "Ready"
	// GroupComplete: all members have read it, and it is removed.
	GroupComplete GroupSnapshotState = "Complete"
	// GroupFailed: it was not ready in time, or was rejected, and is removed. Another one is made at retryTime.
	GroupFailed GroupSnapshotState = "Failed"
)

// TransferSetGroupStatus is of the last VolumeGroupSnapshot of a TransferSet.
//
// +structType=atomic
type TransferSetGroupStatus struct {
	// name of the VolumeGroupSnapshot.
	// +optional
	Name string `json:"name,omitempty"`
	// state it is in.
	// +optional
	State GroupSnapshotState `json:"state,omitempty"`
	// startTime is when it was begun.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`
	// pointInTime is the moment that it is of, as the driver tells it. Absent until it is ready.
	// +optional
	PointInTime *metav1.Time `json:"pointInTime,omitempty"`
	// retryTime is when another one is made after one that failed.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// failures in a row.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// lastRunRequest is the value of the annotation lighterage.dev/run that was acted upon last.
	// +optional
	LastRunRequest string `json:"lastRunRequest,omitempty"`
}

// TransferSetMembers counts the members of a TransferSet.
type TransferSetMembers struct {
	// selected claims. Each is counted once below. Those of namespaces without a TransferSet are not known.
	// +optional
	Selected int32 `json:"selected"`
	// complete: the last run of the member is Complete.
	// +optional
	Complete int32 `json:"complete"`
	// running: a run of the member is under way.
	// +optional
	Running int32 `json:"running"`
	// waiting: there is no member yet, or its first run has not begun.
	// +optional
	Waiting int32 `json:"waiting"`
	// failed: the last run of the member failed, the member waits for somebody, or it cannot be made. failures has some
	// of them.
	// +optional
	Failed int32 `json:"failed"`
	// retained are Transfers of the set whose claims are not selected any more, by memberPolicy Retain or while they are
	// being deleted. They are in none of the other figures.
	// +optional
	Retained int32 `json:"retained,omitempty"`
}

// TransferSetFailure is a claim whose member needs somebody, or a namespace whose TransferSet does.
type TransferSetFailure struct {
	// namespace that spec.namespaceSelector finds. Absent: the TransferSet's own.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// claimName of the claim. Absent: no claim of the namespace can be moved.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// transferName of the member, whether it exists or not.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TransferName string `json:"transferName,omitempty"`
	// reason of the member's condition Ready, or why there is no member.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message that goes with it, cut at 256 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// TransferSetStatus is what was seen of a TransferSet.
type TransferSetStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// namespaces that spec.namespaceSelector finds. Absent without it.
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`
	// members by state. With spec.namespaceSelector this and all that follows is summed up from the TransferSets of the
	// namespaces.
	// +optional
	Members *TransferSetMembers `json:"members,omitempty"`
	// bytes of files that are at the destinations, those that were there before included, by the present or last run of
	// each member. While members run this is looked at every 30 seconds, and with spec.namespaceSelector every 30 seconds
	// once more.
	// +optional
	Bytes int64 `json:"bytes"`
	// bytesTotal found at the sources by these runs so far.
	// +optional
	BytesTotal int64 `json:"bytesTotal"`
	// wireBytes that these runs sent over the network, TLS included.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// costs of these runs by currency. A Statement has those of all runs.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=8
	Costs []CurrencyCost `json:"costs,omitempty"`
	// recoveryPoint is the oldest one of the members: the destinations have nothing older. Absent while a selected claim
	// has none.
	// +optional
	RecoveryPoint *metav1.Time `json:"recoveryPoint,omitempty"`
	// group is of the last VolumeGroupSnapshot. Absent without spec.group.
	// +optional
	Group *TransferSetGroupStatus `json:"group,omitempty"`
	// schedule of VolumeGroupSnapshots. Absent without spec.group; members have theirs.
	// +optional
	Schedule *ScheduleStatus `json:"schedule,omitempty"`
	// failures are the first 16 claims, by their names, that count as failed, and namespaces whose claims cannot be moved.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Failures []TransferSetFailure `json:"failures,omitempty"`
}

// TransferSet moves all claims of its namespace that a selector finds. It makes a Transfer for each, of which it keeps
// the spec as its template says and sums up the states. Claims that are created or labelled later join. Administrators
// move the claims of several namespaces with one in the operator's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name is a label of the members; use at most 63 characters"
// +kubebuilder:printcolumn:name="Peer",type=string,JSONPath=`.spec.template.destination.peer`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.members.selected`,description="claims"
// +kubebuilder:printcolumn:name="Complete",type=integer,JSONPath=`.status.members.complete`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.members.running`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.members.waiting`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.members.failed`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Recovery point",type=date,JSONPath=`.status.recoveryPoint`,priority=1,description="age of the oldest of what the destinations have"
type TransferSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which claims are moved, and how.
	// +required
	Spec TransferSetSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status TransferSetStatus `json:"status,omitzero"`
}

// TransferSetList is a list of TransferSets.
// +kubebuilder:object:root=true
type TransferSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TransferSet `json:"items"`
}
