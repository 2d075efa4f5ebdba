// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerifyMode says how the destination is checked before a run is Complete.
// +kubebuilder:validation:Enum=None;Digest
type VerifyMode string

const (
	// VerifyNone trusts the checksum that every block carries.
	VerifyNone VerifyMode = "None"
	// VerifyDigest reads every file that was written back from the destination and compares digests with the sender.
	VerifyDigest VerifyMode = "Digest"
)

// PersistentVolumeClaimPath is a directory in a claim.
type PersistentVolumeClaimPath struct {
	// claimName of the PersistentVolumeClaim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ClaimName string `json:"claimName,omitempty"`

	// path of the directory, from the root of the volume.
	// +optional
	// +default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute, from the root of the volume; write for example /data"
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..' || p == '.')",message="path must not contain . or .. elements; name the directory itself"
	Path string `json:"path,omitempty"`
}

// AgentPodTemplate is what a user may set of an agent's pod.
type AgentPodTemplate struct {
	// securityContext of the sending agent's container, over the restricted default (user and group 65532, no
	// capabilities). With runAsUser: 0 the agent reads files of other users (capability DAC_READ_SEARCH and no other),
	// and the receiving agent is asked to keep owners, setuid and setgid and file capabilities (CHOWN, DAC_OVERRIDE,
	// FOWNER, FSETID and SETFCAP), which it does where its namespace allows it too. capabilities.add of DAC_READ_SEARCH
	// alone asks only to read. A namespace allows all this, and any other user or group, with the annotation
	// lighterage.dev/allow-privileged-agents: "true". No agent is privileged, may escalate its privilege, or gets a
	// capability that is not named here.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// resources of the container. By default the agent asks for 100m CPU and 128Mi and is limited to 512Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// tolerations of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// priorityClassName of the pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// TransferSpec is what is to be moved where, and how.
//
// +kubebuilder:validation:XValidation:rule="has(self.source.objectStore) == has(oldSelf.source.objectStore) && (has(self.source.objectStore) ? self.source.objectStore == oldSelf.source.objectStore : self.source.persistentVolumeClaim == oldSelf.source.persistentVolumeClaim)",message="persistentVolumeClaim and objectStore of source are immutable; delete this Transfer and create one with another name"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || has(self.source.peer) || has(self.destination.peer) || has(self.destination.namespace) || has(self.source.objectStore) || !has(self.destination.persistentVolumeClaim) || self.source.persistentVolumeClaim.claimName != self.destination.persistentVolumeClaim.claimName || self.source.persistentVolumeClaim.path != self.destination.persistentVolumeClaim.path",message="source and destination must not be the same directory; choose another claim, or a path beside the other"
// +kubebuilder:validation:XValidation:rule="!has(self.source.objectStore) || !has(self.destination) || !has(self.destination.peer) && !has(self.destination.namespace)",message="from an objectStore the destination must be in the Transfer's namespace; remove peer and namespace of destination, or create an ObjectStore and a Transfer there"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.receipt) || !self.receipt || !has(self.destination.via)",message="the clusters exchange a receipt over the network, so there is none with destination.via; remove receipt or via"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.receipt) || !self.receipt || !has(self.destination.ephemeral)",message="nothing is left of an ephemeral volume for a receipt to state; remove receipt"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.form) || self.destination.form in ['Files', 'Archive'] || has(self.destination.persistentVolumeClaim) || has(self.destination.objectStore)",message="files rest as Gzip or Zstd only in a claim or an objectStore; remove destination.form, or use a persistentVolumeClaim or objectStore as destination"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.form) || self.destination.form != 'Archive' || has(self.source.persistentVolumeClaim) && (has(self.destination.objectStore) || has(self.destination.persistentVolumeClaim) && !has(self.destination.peer) && !has(self.destination.namespace))",message="files are archived only from a claim in an objectStore, or in a claim of the same namespace; use form: Gzip or Zstd, remove destination.form, or use a persistentVolumeClaim as source and one of these as destination"
// +kubebuilder:validation:XValidation:rule="!has(self.source.form) || self.source.form != 'Archive' || has(self.destination) && (!has(self.destination.form) || self.destination.form != 'Archive')",message="archives of a claim are restored into one destination as files, Gzip or Zstd; remove source.form to copy the archives themselves, or make a Transfer for each destination"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.form) || self.destination.form == 'Files' || !has(self.destination.via)",message="what goes through an object store arrives as plain files; remove destination.form or destination.via"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.form) || self.destination.form == 'Files' || has(self.destination.objectStore) || !has(self.receipt) || !self.receipt",message="a receipt is of files that can be read again, as with form Files, or in an objectStore; remove receipt or form"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.encryption) || !has(self.receipt) || !self.receipt",message="for a receipt the archives would be decrypted and read again, for which the writer has no identity; remove receipt or destination.encryption"
// +kubebuilder:validation:XValidation:rule="!has(self.source.encryption) || !has(self.destination) || !has(self.destination.scrub) || self.destination.scrub != 'Checksums'",message="with scrub: Checksums encrypted archives are verified as they rest, which needs no identity; remove source.encryption, or use scrub: Inflate"
// +kubebuilder:validation:XValidation:rule="!has(self.source.form) || self.source.form == 'Files' || has(self.source.persistentVolumeClaim) && (!has(self.destination) || !has(self.destination.via) && (self.source.form != 'Archive' || has(self.destination.persistentVolumeClaim) || has(self.destination.scrub))) || has(self.source.objectStore) && self.source.form != 'Archive' && (!has(self.destination) || !has(self.destination.scrub))",message="what goes through an object store is sent as files are, archives of a claim are restored into claims only, and archives and scrubs of an objectStore need no form; remove source.form or destination.via, or use a persistentVolumeClaim as destination"
// +kubebuilder:validation:XValidation:rule="!has(self.source.form) || self.source.form == 'Files' || !has(self.destination) || has(self.destination.form) && self.destination.form != 'Files' || !has(self.destination.persistentVolumeClaim) || !has(self.destination.persistentVolumeClaim.template) || has(self.destination.persistentVolumeClaim.template.size)",message="files take more space than where they rest compressed; add destination.persistentVolumeClaim.template.size"
// +kubebuilder:validation:XValidation:rule="has(self.destination) == has(oldSelf.destination) && (!has(self.destination) || has(self.destination.peer) == has(oldSelf.destination.peer) && has(self.destination.via) == has(oldSelf.destination.via) && has(self.destination.namespace) == has(oldSelf.destination.namespace) && has(self.destination.persistentVolumeClaim) == has(oldSelf.destination.persistentVolumeClaim) && has(self.destination.objectStore) == has(oldSelf.destination.objectStore) && has(self.destination.ephemeral) == has(oldSelf.destination.ephemeral) && has(self.destination.scrub) == has(oldSelf.destination.scrub) && has(self.destination.form) == has(oldSelf.destination.form) && has(self.destination.records) == has(oldSelf.destination.records) && has(self.destination.encryption) == has(oldSelf.destination.encryption))",message="destination but for its snapshot is immutable; delete this Transfer and create one with another name"
// +kubebuilder:validation:XValidation:rule="has(self.destination) != has(self.destinations)",message="spec must have exactly one of destination and destinations"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || has(self.source.persistentVolumeClaim)",message="with several destinations the source is a persistentVolumeClaim; use one, or make a Transfer for each destination"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || !has(self.source.hooks) || has(self.source.copyMethod) && self.source.copyMethod != 'Direct'",message="hooks of a run with several destinations that reads the claim itself would last until the slowest of them has everything; set source.copyMethod to Snapshot or Clone, or remove hooks"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || !has(self.receipt) || !self.receipt || self.destinations.all(d, !has(d.encryption) && (has(d.objectStore) || !has(d.form) || d.form == 'Files'))",message="a receipt is of files that can be read again, as with form Files, or in an objectStore without encryption; remove receipt, or form and encryption of destinations"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || (!has(self.pause) || !self.pause) && (!has(self.schedule) || !has(self.schedule.windows))",message="runs with several destinations do not pause; remove pause and schedule.windows, or make a Transfer for each destination"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || !has(self.deadline)",message="a deadline is of one destination; remove deadline, or make a Transfer for each destination"
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.deadline.time) || !has(self.schedule) || !has(self.schedule.cron)",message="deadline.time is one time; use deadline.within with schedule.cron"
// +kubebuilder:validation:XValidation:rule="!has(self.destinations) || !has(self.source.persistentVolumeClaim) || self.destinations.all(d, !has(d.persistentVolumeClaim) || has(d.peer) || has(d.namespace) || self.source.persistentVolumeClaim.claimName != d.persistentVolumeClaim.claimName || self.source.persistentVolumeClaim.path != d.persistentVolumeClaim.path)",message="source and destination must not be the same directory; choose another claim, or a path beside the other"
// +kubebuilder:validation:XValidation:rule="!has(self.source.objectStore) || !has(self.destination) || !has(self.destination.persistentVolumeClaim) || !has(self.destination.persistentVolumeClaim.template) || has(self.destination.persistentVolumeClaim.template.size)",message="an objectStore has no capacity that the size of a claim could come from; add size to the template"
// +kubebuilder:validation:XValidation:rule="!has(self.allowEmptySource) || !self.allowEmptySource || (has(self.delete) && self.delete)",message="allowEmptySource means something only with delete: true; add that, or remove allowEmptySource"
// +kubebuilder:validation:XValidation:rule="has(self.source.objectStore) || !has(self.destination) || !has(self.destination.ephemeral)",message="what goes into an ephemeral volume is lost, so it is for proving that an objectStore can be restored; use an objectStore as source, or a persistentVolumeClaim as destination"
// +kubebuilder:validation:XValidation:rule="has(self.source.objectStore) && (!has(self.destination) || !has(self.destination.objectStore)) || has(self.destination) && has(self.destination.scrub) || !has(self.inflate) || self.inflate == 'Any'",message="inflate is about archives in an objectStore that are restored; remove it, or use an objectStore as source and a volume as destination"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.scrub) || has(self.source.objectStore) || has(self.source.form) && self.source.form != 'Files'",message="plain files of a claim have no checksums to be compared with; set source.form to the form in which they rest"
// +kubebuilder:validation:XValidation:rule="!has(self.destination) || !has(self.destination.scrub) || !has(self.include) && !has(self.exclude) && !has(self.source.hooks) && (!has(self.source.copyMethod) || self.source.copyMethod == 'Direct') && (!has(self.delete) || !self.delete) && (!has(self.receipt) || !self.receipt)",message="scrub verifies everything where it rests, and writes nothing; remove include, exclude, delete, receipt, source.copyMethod and source.hooks"
// +kubebuilder:validation:XValidation:rule="has(self.source.peer) == has(oldSelf.source.peer) && has(self.source.namespace) == has(oldSelf.source.namespace)",message="peer and namespace of source are immutable; delete this Transfer and create one with another name"
// +kubebuilder:validation:XValidation:rule="!has(self.source.peer) || has(self.destination) && has(self.destination.persistentVolumeClaim) && !has(self.destination.peer) && !has(self.destination.namespace) && !has(self.destination.persistentVolumeClaim.template) && !has(self.destination.form) && !has(self.destination.snapshot)",message="with source.peer the destination is a persistentVolumeClaim of the Transfer's namespace that exists; remove peer, namespace, template, form and snapshot of destination, and create a Transfer for each of destinations"
// +kubebuilder:validation:XValidation:rule="!has(self.source.peer) || !has(self.compression) && !has(self.podTemplate)",message="with source.peer the other cluster makes the sending pod and its CompressionPolicy applies; remove compression and podTemplate"
type TransferSpec struct {
	// source: its persistentVolumeClaim, objectStore, peer and namespace are immutable.
	// +required
	Source TransferSource `json:"source,omitzero"`

	// destination is immutable but for its snapshot. Exactly one of destination and destinations is needed.
	// +optional
	Destination TransferDestination `json:"destination,omitzero"`

	// destinations are several claims and objectStores that get the same. For claims the source is read and compressed
	// once, as far as they keep up; each objectStore is written by a pod of its own, from the same copy of the source.
	// Each has a Transfer of its own, which this one owns: with attempts, a Delivery, quotas, statistics and a receipt.
	// What this spec says of runs holds for each: maxAttempts, bandwidthLimit, verify. Destinations can be added and
	// removed, which starts another run.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Destinations []NamedDestination `json:"destinations,omitempty"`

	// include says what is moved; absent: everything. Patterns are those of a .gitignore file, relative to the source's
	// path: *.csv matches at every depth, /data/ and data/2026 from the root, ** any number of directories, and what
	// matches a directory matches everything in it. A change takes effect with the next attempt or run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.exists(p, p.startsWith('!'))",message="an include pattern cannot begin with \"!\"; move it to exclude without the \"!\", or write \"\\!\" for the character"
	Include []string `json:"include,omitempty"`

	// exclude says what of that is not moved, by patterns like those of include. They are read in order, and one that
	// begins with "!" takes back what those before it exclude. A change takes effect with the next attempt or run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Exclude []string `json:"exclude,omitempty"`

	// delete removes at the destination what the source does not have, when everything else is there and safe. What
	// include and exclude leave out is never removed, nor is lost+found of the volume. What is in the way of a file
	// that comes is replaced by it. status.progress.removed counts. A change takes effect with the next attempt or run.
	// +optional
	Delete bool `json:"delete,omitempty"`

	// allowEmptySource lets delete go on when the source has no files, and so empty the destination. Without it such a
	// run fails instead, because a source that is suddenly empty is mostly a mistake: another claim, another path, a
	// volume that was not filled.
	// +optional
	AllowEmptySource bool `json:"allowEmptySource,omitempty"`

	// compression overrides the CompressionPolicy that applies. A change takes effect with the next attempt or run.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// inflate: Software has archives of an objectStore inflated without an accelerator, also on a node that has one. A
	// change takes effect with the next attempt or run.
	// +optional
	// +default="Any"
	Inflate InflateMode `json:"inflate,omitempty"`

	// verify says how the destination is checked before the run is Complete. A change takes effect with the next
	// attempt or run.
	// +optional
	// +default="Digest"
	Verify VerifyMode `json:"verify,omitempty"`

	// receipt has both clusters sign, at the end of each run, what was moved: a digest of all content, bytes, codec, CPU
	// time, attempts and times. Both agents read all files once more to digest them with SHA-256. status.receipt has the
	// result. A change takes effect with the next attempt or run.
	// +optional
	Receipt bool `json:"receipt,omitempty"`

	// checkpointInterval is how many bytes each stream may have written at the destination that are not safe there yet.
	// When an attempt breaks, at most that much of each is sent again. A smaller one costs more syncs. A change takes
	// effect with the next attempt or run.
	// +optional
	// +default="64Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="checkpointInterval must be between 1Mi and 16Gi; write for example 64Mi"
	CheckpointInterval *resource.Quantity `json:"checkpointInterval,omitempty"`

	// streams is how many connections carry data at once, each with a block of at most 1 MiB in the making. 0: as many
	// as the sending agent may use cores, and at least 8 to a gateway whose round-trip time is 10ms or more; 8 from an
	// object store, and 16 of files of up to 256 KiB into one. More help where the way is long, not where it is fast. A
	// change takes effect with the next attempt or run.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Streams int32 `json:"streams,omitempty"`

	// bandwidthLimit is how many bytes per second the sending agent writes to the wire at most: after compression, TLS
	// included, all streams together. Absent: no limit, or the run's share where a DataQuota limits bandwidth. It means
	// nothing for a Transfer that goes through no network. A change takes effect within seconds; where a DataQuota limits
	// bandwidth, a larger one with the next run. status.run.bandwidthLimit shows what is in force.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('256Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="bandwidthLimit must be between 256Ki and 1Pi bytes per second; write for example 200Mi"
	BandwidthLimit *resource.Quantity `json:"bandwidthLimit,omitempty"`

	// maxAttempts bounds the failed tries of one run; see status.run.failures for which count. The waits between them
	// grow from 5 seconds to 5 minutes.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// schedule starts runs by the clock, keeps them within windows of time, or both. Without cron there is a run when the
	// Transfer is created. The annotation lighterage.dev/run starts one at any time that windows allow. Two never
	// overlap: a time that comes while a run is under way is missed, and counted.
	// +optional
	Schedule *TransferSchedule `json:"schedule,omitempty"`

	// suspend keeps runs, and further attempts of a run, from starting. An attempt that is under way goes on. Times of
	// the schedule that pass meanwhile are not made up for.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// pause ends the agents of an attempt that is under way at once, and keeps runs and attempts from starting. The run
	// stays, with its copy of the source, and goes on from its checkpoints when pause is false again: at most
	// spec.checkpointInterval of each stream is sent again. It holds no quota meanwhile. Times of the schedule that pass
	// are not made up for.
	// +optional
	Pause bool `json:"pause,omitempty"`

	// objective of the Transfer, which is watched and does not change when runs start.
	// +optional
	Objective *TransferObjective `json:"objective,omitempty"`

	// deadline by which a run is to be Complete. status.deadline has what is expected, and the condition WithinDeadline
	// whether that is in time. A run starts as it would without: at once, or when the next window opens, or with strategy
	// Cheapest when it costs least. One that would be late by the figures of the last Complete run minimises its time,
	// whatever the objective of its CompressionPolicy is.
	// +optional
	Deadline *TransferDeadline `json:"deadline,omitempty"`

	// podTemplate adjusts the sending agent's pod. A change takes effect with the next attempt or run.
	// +optional
	PodTemplate *AgentPodTemplate `json:"podTemplate,omitempty"`
}

// TransferPhase sums up a Transfer for people. Programs read conditions.
// +kubebuilder:validation:Enum=Pending;Queued;Scheduled;Suspended;Paused;Starting;Opening;Transferring;Retrying;Complete;Failed
type TransferPhase string

const (
	TransferPending      TransferPhase = "Pending"
	TransferQueued       TransferPhase = "Queued"
	TransferScheduled    TransferPhase = "Scheduled"
	TransferSuspended    TransferPhase = "Suspended"
	TransferPaused       TransferPhase = "Paused"
	TransferStarting     TransferPhase = "Starting"
	TransferOpening      TransferPhase = "Opening"
	TransferTransferring TransferPhase = "Transferring"
	TransferRetrying     TransferPhase = "Retrying"
	TransferComplete     TransferPhase = "Complete"
	TransferFailed       TransferPhase = "Failed"
)

// Route is how the data of an attempt go.
// +kubebuilder:validation:Enum=Gateway;Direct;Pod;ObjectStore;Storage
type Route string

const (
	// RouteGateway: from agent to agent through the gateway of the other cluster.
	RouteGateway Route = "Gateway"
	// RouteDirect: from agent to agent within this cluster.
	RouteDirect Route = "Direct"
	// RoutePod: within one pod that mounts both claims, over no network.
	RoutePod Route = "Pod"
	// RouteObjectStore: between object stores, or one and a claim that the same pod mounts, over the network.
	RouteObjectStore Route = "ObjectStore"
	// RouteStorage: from agent to agent of the other cluster through an object store, by destination.via.
	RouteStorage Route = "Storage"
)

// ThisCluster stands in status for the Peer when the other side is in this cluster. It is no name that a Peer can have.
const ThisCluster = "(this cluster)"

// QueuedStatus is of a run, or of its next attempt, that waits until limits of its namespace, of its Peer or of the
// cluster allow it.
//
// +structType=atomic
type QueuedStatus struct {
	// time since when it waits. Of those of one priority that wait in a namespace, the first that began to is the first
	// to go on. It stays while the run waits for a window or a price, without place and waiting.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// route that it will take, which says whether it needs bandwidth.
	// +optional
	Route Route `json:"route,omitempty"`
	// priority among those that wait in the namespace, by the PriorityClass of spec.podTemplate.priorityClassName.
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// place among those that wait for the same limit, from 1 on. It is brought up to date at once for places up to 10,
	// and every few minutes for others.
	// +optional
	Place int32 `json:"place,omitempty"`
	// waiting is how many wait for the same limit.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
}

// TransferStatus is what was seen of a Transfer.
type TransferStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, Complete, Failed, HardwareCompression, ReceiptSigned, WithinObjective, WithinDeadline,
	// HooksSucceeded, DestinationFits, HistoryKept.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase for people.
	// +optional
	Phase TransferPhase `json:"phase,omitempty"`
	// peer for people: the name of the Peer that is sent to or pulled from, or "(this cluster)".
	// +optional
	Peer string `json:"peer,omitempty"`
	// pull is of a Transfer with source.peer: what the other cluster made for it.
	// +optional
	Pull *PullStatus `json:"pull,omitempty"`
	// lastRunRequest is the value of the annotation lighterage.dev/run that was acted upon last.
	// +optional
	LastRunRequest string `json:"lastRunRequest,omitempty"`
	// schedule of runs.
	// +optional
	Schedule *ScheduleStatus `json:"schedule,omitempty"`
	// deadline of the run that is awaited or under way, or else of the last one. Absent without spec.deadline.
	// +optional
	Deadline *DeadlineStatus `json:"deadline,omitempty"`
	// policy in force for the present or last run. A change of a CompressionPolicy, or of spec.compression, applies to
	// runs that start after it; a run keeps what it began with, through all of its attempts.
	// +optional
	Policy *PolicyStatus `json:"policy,omitempty"`
	// placement of the sending agent of the present or last attempt.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// queued is set while a run, or its next attempt, waits for a limit; the condition Ready says for which.
	// +optional
	Queued *QueuedStatus `json:"queued,omitempty"`
	// run is the present or last run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// gatheringTime is since when destinations get ready for the next pod that sends to them; absent: none is awaited. Of
	// a Transfer with destinations.
	// +optional
	GatheringTime *metav1.Time `json:"gatheringTime,omitempty"`
	// destinations are those of spec.destinations.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Destinations []DestinationStatus `json:"destinations,omitempty"`
	// staged is the copy of the source that the run reads, with spec.source.copyMethod Snapshot or Clone.
	// +optional
	Staged *StagedStatus `json:"staged,omitempty"`
	// copyTrigger is what the copy of the present or last run waits for, where the claim has the annotation
	// lighterage.dev/use-copy-trigger.
	// +optional
	CopyTrigger *CopyTriggerStatus `json:"copyTrigger,omitempty"`
	// hooks are those of the present or last run.
	// +optional
	Hooks *HooksStatus `json:"hooks,omitempty"`
	// recoveryPoint is the time whose state the destination has by the last Complete run: that of the snapshot or clone,
	// or, of files that were read directly, the start of the run. While another run writes, the destination has newer
	// files beside those. A claim with volumeMode: Block has no state from the beginning of a run into it until it is
	// Complete.
	// +optional
	RecoveryPoint *metav1.Time `json:"recoveryPoint,omitempty"`
	// snapshots of the destination, with spec.destination.snapshot: of the newest run first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Snapshots []SnapshotStatus `json:"snapshots,omitempty"`
	// progress of the present or last run.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// compression of the present or last attempt.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`
	// decisions of the present or last attempt: what the choices of mode Auto lost. Absent in other modes, and until that
	// is known.
	// +optional
	Decisions *DecisionsStatus `json:"decisions,omitempty"`
	// decompression at the other side.
	// +optional
	Decompression *DecompressionStatus `json:"decompression,omitempty"`
	// cpu of both sides, of the present or last attempt.
	// +optional
	CPU *CPUStatus `json:"cpu,omitempty"`
	// usage of the present or last attempt. run.usage has that of all attempts of the run.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// cost of the present or last attempt at the prices in force; absent while there are none. run.cost has that of all
	// attempts of the run.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
	// receipt of the present or last run. Absent without spec.receipt, and until the run is Complete.
	// +optional
	Receipt *ReceiptStatus `json:"receipt,omitempty"`
	// omissions name what could not be moved or kept.
	// +optional
	// +listType=map
	// +listMapKey=what
	Omissions []Omission `json:"omissions,omitempty"`
	// history of attempts, newest first, at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []AttemptRecord `json:"history,omitempty"`
}

// Transfer moves the files of a claim to another claim, of another cluster or of this one, or from another cluster to
// this one: once, by a schedule, and
// whenever the annotation lighterage.dev/run gets a new value.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="Peer",type=string,JSONPath=`.status.peer`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.progress.percent`,description="percent"
// +kubebuilder:printcolumn:name="Saved",type=integer,JSONPath=`.status.compression.savedPercent`,description="percent of the bytes that compression kept off the wire"
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.compression.engine`
// +kubebuilder:printcolumn:name="Rate",type=integer,JSONPath=`.status.progress.bytesPerSecond`,description="uncompressed bytes per second"
// +kubebuilder:printcolumn:name="CPU/GiB",type=string,JSONPath=`.status.cpu.secondsPerGiB`,description="CPU seconds of both sides per GiB"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.run.node`,priority=1
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.run.attempt`,priority=1
// +kubebuilder:printcolumn:name="Route",type=string,JSONPath=`.status.run.route`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.schedule.nextTime`,priority=1
// +kubebuilder:printcolumn:name="Recovery point",type=date,JSONPath=`.status.recoveryPoint`,priority=1,description="age of what the destination has"
// +kubebuilder:printcolumn:name="CPU cost",type=string,JSONPath=`.status.run.cost.cpu`,priority=1,description="price of the CPU time of this cluster, of all attempts of the run"
// +kubebuilder:printcolumn:name="Network cost",type=string,JSONPath=`.status.run.cost.network`,priority=1,description="price of the bytes on the wire, of all attempts of the run"
type Transfer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be moved where, and how.
	// +required
	Spec TransferSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status TransferStatus `json:"status,omitzero"`
}

// TransferList is a list of Transfers.
// +kubebuilder:object:root=true
type TransferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Transfer `json:"items"`
}
