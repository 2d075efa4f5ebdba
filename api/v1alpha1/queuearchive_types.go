// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueArchiveClaim is a volume with archives of Queues, of any number of them.
type QueueArchiveClaim struct {
	// claimName of a PersistentVolumeClaim in the Queue's namespace. With replicas: 3 it has to be ReadWriteMany.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ClaimName string `json:"claimName,omitempty"`
}

// QueueArchive writes down what a Queue holds, so that another one can be made of it when its volumes are lost. Every
// interval the messages that were put since, and are in the queue still, are written to files on the claim. Messages
// that leave the queue sooner are not archived, since there is nothing to recover.
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) || has(self.objectStore)",message="archive must have persistentVolumeClaim, objectStore or both: say where to write it"
type QueueArchive struct {
	// persistentVolumeClaim to write to. A change restarts the members, one after the other, and begins another archive
	// there.
	// +optional
	PersistentVolumeClaim QueueArchiveClaim `json:"persistentVolumeClaim,omitzero"`
	// objectStore in the Queue's namespace to write to. With persistentVolumeClaim it is a second copy: each is written on its own, whatever
	// becomes of the other, and either can be restored. A change restarts the members, one after the other.
	// +optional
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`
	// interval between two looks for what was put: what a loss of all volumes can cost.
	// +optional
	// +default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval must be between 1s and 24h; write for example 1m"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// maxRangeSize is the size of messages, as stored in the queue, from which a file is closed and another begun. In an
	// objectStore it is 8Mi at most.
	// +optional
	// +default="64Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('4Gi')) <= 0",message="maxRangeSize must be between 1Mi and 4Gi; write for example 64Mi"
	MaxRangeSize *resource.Quantity `json:"maxRangeSize,omitempty"`
	// retention after which a file is deleted, if all of its messages and all before them have left the queue. Absent:
	// files stay. To delete single ones by hand makes the archive useless; a whole archive, which is a directory, can
	// be deleted; the Queue then starts another.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="retention must be between 1s and 87600h; write for example 168h"
	Retention *metav1.Duration `json:"retention,omitempty"`
}

// QueueRestoredMessages says which messages of an archive are restored.
// +kubebuilder:validation:Enum=Remaining;All
type QueueRestoredMessages string

const (
	// QueueRestoreRemaining restores the messages that were in the queue when the archive was written last.
	QueueRestoreRemaining QueueRestoredMessages = "Remaining"
	// QueueRestoreAll restores everything that the archive has, messages that were acknowledged since included.
	QueueRestoreAll QueueRestoredMessages = "All"
)

// QueueRestore fills a new Queue from an archive before clients are served.
//
// +kubebuilder:validation:XValidation:rule="has(self.queue) != has(self.path)",message="either queue or path must be given: queue for its latest archive, path for a certain one"
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) != has(self.objectStore)",message="restore must have exactly one of persistentVolumeClaim and objectStore"
type QueueRestore struct {
	// persistentVolumeClaim with the archive, which is only read. It may be the one that the Queue itself is archived
	// to.
	// +optional
	PersistentVolumeClaim QueueArchiveClaim `json:"persistentVolumeClaim,omitzero"`
	// objectStore in the Queue's namespace with the archive, which is only read. It may be the one that the Queue itself is archived to.
	// +optional
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`
	// queue whose latest archive it is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="queue must be the name of a Queue: lower-case letters, digits and -, beginning with a letter"
	Queue string `json:"queue,omitempty"`
	// path of the archive in the claim or objectStore, such as status.archive.path or status.storeArchive.path of a Queue
	// says it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..' || p == '.')",message="path must not contain . or .. elements; name the archive itself"
	Path string `json:"path,omitempty"`
	// messages to restore: Remaining or All.
	// +optional
	// +default="Remaining"
	Messages QueueRestoredMessages `json:"messages,omitempty"`
}

// QueueArchiveError is why an archive could not be written or restored.
type QueueArchiveError struct {
	// reason in a word, one of those of conditions.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what happened, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// time when it happened.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// QueueArchiveStatus is how far the archive has come, and what is in it.
//
// +structType=atomic
type QueueArchiveStatus struct {
	// path of the archive in the claim or objectStore. A Queue that was created again has another.
	// +optional
	Path string `json:"path,omitempty"`
	// sequence of the queue up to which the archive has come.
	// +optional
	Sequence int64 `json:"sequence"`
	// behind is how many messages were put since.
	// +optional
	Behind int64 `json:"behind"`
	// ranges are the files with messages that there are.
	// +optional
	Ranges int64 `json:"ranges"`
	// rangeBytes that these take.
	// +optional
	RangeBytes int64 `json:"rangeBytes"`
	// messages that were archived, those included whose files were deleted since.
	// +optional
	Messages int64 `json:"messages"`
	// bytes of these messages as they were put.
	// +optional
	Bytes int64 `json:"bytes"`
	// compressedBytes of the files that were written with them.
	// +optional
	CompressedBytes int64 `json:"compressedBytes"`
	// ratio is bytes divided by compressedBytes, as a decimal.
	// +optional
	Ratio string `json:"ratio,omitempty"`
	// passed messages had left the queue when the archive came to them, and are not in it.
	// +optional
	Passed int64 `json:"passed"`
	// codec in which messages are archived that were not compressed when they were put.
	// +optional
	Codec string `json:"codec,omitempty"`
	// engine that compresses these.
	// +optional
	Engine string `json:"engine,omitempty"`
	// reason why these are compressed so, or are not: one of those of status.compression.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastTime is when the archive had all that the queue had.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// lastError is why it could not be written, if the last try failed.
	// +optional
	LastError *QueueArchiveError `json:"lastError,omitempty"`
}

// QueueRestoreStatus is how far a restore has come, or what it has done.
//
// +structType=atomic
type QueueRestoreStatus struct {
	// state in a word: Restoring, Failed (it is tried again) or Restored.
	// +optional
	State string `json:"state,omitempty"`
	// path of the archive in the claim or objectStore.
	// +optional
	Path string `json:"path,omitempty"`
	// messages that were restored.
	// +optional
	Messages int64 `json:"messages"`
	// bytes of these messages as they were put.
	// +optional
	Bytes int64 `json:"bytes"`
	// archiveBytes of files that were read for that.
	// +optional
	ArchiveBytes int64 `json:"archiveBytes"`
	// duration of the restore.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// megabytesPerSecond is the rate of recovery: bytes, in millions, divided by duration, as a decimal.
	// +optional
	MegabytesPerSecond string `json:"megabytesPerSecond,omitempty"`
	// cpuSecondsPerMegabyte is what recovery costs: CPU time of the member that restored, divided by bytes in millions,
	// as a decimal.
	// +optional
	CPUSecondsPerMegabyte string `json:"cpuSecondsPerMegabyte,omitempty"`
	// lastError is why it does not go on.
	// +optional
	LastError *QueueArchiveError `json:"lastError,omitempty"`
}
