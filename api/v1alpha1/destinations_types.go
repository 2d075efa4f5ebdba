// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TransferVia is a way to another cluster.
type TransferVia struct {
	// objectStore of the Transfer's namespace. In the other cluster an ObjectStore with the same bucket and prefix must
	// have handOff: Receive. The bucket gets what the connections between the agents carry, encrypted from end to end.
	// +required
	ObjectStore ObjectStoreReference `json:"objectStore,omitzero"`
}

// TransferDestination is what a Transfer writes: exactly one of persistentVolumeClaim, objectStore, ephemeral and
// scrub.
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.objectStore), has(self.ephemeral), has(self.scrub)].exists_one(x, x)",message="destination must have exactly one of persistentVolumeClaim, objectStore, ephemeral and scrub"
// +kubebuilder:validation:XValidation:rule="!has(self.scrub) || !has(self.peer) && !has(self.namespace) && !has(self.form)",message="scrub verifies the source where it rests, in the Transfer's namespace; remove peer, namespace and form"
// +kubebuilder:validation:XValidation:rule="!has(self.objectStore) || !has(self.peer) && !has(self.namespace)",message="an objectStore is one of the Transfer's namespace; remove peer and namespace, and create an ObjectStore here"
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive, or remove encryption"
// +kubebuilder:validation:XValidation:rule="!has(self.records) || has(self.form) && self.form in ['Gzip', 'Zstd']",message="the index of a file in a form knows its records; set form: Gzip or Zstd, or remove records"
// +kubebuilder:validation:XValidation:rule="!has(self.via) || has(self.peer)",message="via is a way to another cluster; add peer or remove via"
// +kubebuilder:validation:XValidation:rule="!has(self.snapshot) || has(self.persistentVolumeClaim) && !has(self.via) && (has(self.peer) || !has(self.namespace))",message="snapshot keeps states of a persistentVolumeClaim in the Transfer's own namespace, or at a peer without via; remove namespace or via, or remove snapshot and make a Transfer with snapshot there, which copies the claim into another"
type TransferDestination struct {
	// peer names the Peer, the other cluster. Absent: the destination is in this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="peer of destination is immutable; delete this Transfer and create one with another name"
	Peer string `json:"peer,omitempty"`

	// via is how the other cluster is reached. Absent: over the network, at the endpoint of the Peer, which need not have
	// one otherwise.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="via of destination is immutable; delete this Transfer and create one with another name"
	Via *TransferVia `json:"via,omitempty"`

	// namespace of the claim in the destination's cluster. Defaults to the Transfer's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace of destination is immutable; delete this Transfer and create one with another name"
	Namespace string `json:"namespace,omitempty"`

	// persistentVolumeClaim in that namespace. It must exist or have a template, and a PeerGrant there must allow this
	// Transfer, unless it is in the Transfer's own namespace of this cluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="persistentVolumeClaim of destination is immutable; delete this Transfer and create one with another name"
	PersistentVolumeClaim DestinationClaim `json:"persistentVolumeClaim,omitzero"`

	// objectStore in the Transfer's namespace. Every file becomes an object with its bytes as they are, unless archived. A
	// claim with volumeMode: Block is the file volume.img, and a path has nothing else then.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="objectStore of destination is immutable; delete this Transfer and create one with another name"
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`

	// ephemeral is a volume that goes with the agent's pod, so that what is restored from an objectStore is verified and
	// nothing stays. Each attempt begins with an empty one. Drills use it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ephemeral of destination is immutable; delete this Transfer and create one with another name"
	Ephemeral *EphemeralVolume `json:"ephemeral,omitempty"`

	// scrub has nothing written: an objectStore, or a claim with source.form, is verified where it rests. Checksums:
	// what rests is compared with its checksums. Inflate: everything is expanded and compared as well. Drills use it.
	// status.omissions say what was found.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="scrub of destination is immutable; delete this Transfer and create one with another name"
	Scrub ScrubMode `json:"scrub,omitempty"`

	// form in which files rest. Absent or Files: as they are. Gzip and Zstd are without via, and in a claim without
	// receipt: each file as one gzip member, a.csv as a.csv.gz, or as Zstandard frames, a.csv.zst, as they travelled,
	// with an index beside it, .a.csv.gz.lgci. In an objectStore these are two objects, and a Transfer from there
	// restores the file. What rests in this form at the source already is neither inflated nor compressed again. The
	// form fixes the codec, and changed files are sent whole.
	// Archive is for an objectStore, or a claim that one pod can mount together with the source, from a claim: many
	// files in each of some tar archives below .lighterage/archives, compressed with the first codec of the
	// CompressionPolicy, or with mode Never as they are. A Transfer from the objectStore, or from the claim with
	// source.form: Archive, restores them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="form of destination is immutable; delete this Transfer and create one with another name"
	Form RestingForm `json:"form,omitempty"`

	// records that the files consist of, with form Gzip or Zstd. The index of each file then knows where they are, and
	// lighterage-cargo records reads record N, or some of them, with one ranged read. A file that does not consist of
	// such records arrives as well, without record numbers: status.omissions counts it as Records. Files that are there
	// unchanged stay as they are; those without the numbers count as well.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="records of destination are immutable; delete this Transfer and create one with another name"
	Records *FileRecords `json:"records,omitempty"`

	// snapshot has a VolumeSnapshot taken of the persistentVolumeClaim after each Complete run, and keeps some: of a
	// claim in the Transfer's own namespace, or at a peer where a PeerGrant has maxSnapshots. There it needs a CSI
	// driver that makes snapshots, and the manager the right to (chart value pointInTime.enabled). No run writes before
	// the snapshot of the last one is taken; after 10 minutes it is given up. status.snapshots lists them, and the
	// condition HistoryKept says whether the last Complete run has one. They stay when this is removed or the Transfer
	// is deleted. Unlike the rest of destination this can be changed.
	// +optional
	Snapshot *DestinationSnapshot `json:"snapshot,omitempty"`

	// encryption of archives, with age. Names of files are encrypted as well. Each archive is one age
	// file: age -d 00000001-*.tar.gz.age | tar -xz. Numbers and lengths of archives, and when they were written, can be
	// seen. An interrupted run begins the archive again that it was writing.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="encryption of destination is immutable; delete this Transfer and create one with another name and path"
	Encryption *ArchiveEncryption `json:"encryption,omitempty"`
}

// NamedDestination is one of several that a Transfer writes: exactly one of persistentVolumeClaim and objectStore.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a destination is immutable; remove it and add one with another name"
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) != has(self.objectStore)",message="each of destinations must have exactly one of persistentVolumeClaim and objectStore"
// +kubebuilder:validation:XValidation:rule="!has(self.objectStore) || !has(self.peer) && !has(self.namespace)",message="an objectStore is one of the Transfer's namespace; remove peer and namespace, and create an ObjectStore here"
// +kubebuilder:validation:XValidation:rule="has(self.objectStore) || !has(self.form) || self.form != 'Archive'",message="of several destinations an objectStore alone has archives; use form: Gzip or Zstd, remove form, or make a Transfer of its own for the claim"
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || has(self.form) && self.form == 'Archive'",message="archives are encrypted, and nothing else; set form: Archive, or remove encryption"
type NamedDestination struct {
	// name of the destination. Its Transfer is called like this one, a hyphen and this name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// peer names the Peer, the other cluster. Absent: the destination is in this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Peer string `json:"peer,omitempty"`

	// namespace of the claim in the destination's cluster. Defaults to the Transfer's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// persistentVolumeClaim in that namespace. It must exist, and a PeerGrant there must allow this Transfer, unless it
	// is in the Transfer's own namespace of this cluster.
	// +optional
	PersistentVolumeClaim PersistentVolumeClaimPath `json:"persistentVolumeClaim,omitzero"`

	// objectStore in the Transfer's namespace, as of spec.destination. It is written by a pod of its own, which reads and
	// compresses for itself: what is read and compressed once is for claims.
	// +optional
	ObjectStore *ObjectStorePath `json:"objectStore,omitempty"`

	// form in which files rest, as of spec.destination. Archive is for an objectStore. What claims get is compressed once
	// for all of them with the codec of the form, if those without a form read that.
	// +optional
	Form RestingForm `json:"form,omitempty"`

	// encryption of archives, as of spec.destination.
	// +optional
	Encryption *ArchiveEncryption `json:"encryption,omitempty"`
}

// DestinationStatus is of one of several destinations. Its Transfer has more: conditions, history, usage, cost and the
// receipt.
type DestinationStatus struct {
	// name of the destination.
	// +required
	Name string `json:"name,omitempty"`
	// transfer is the name of its Transfer, in the same namespace.
	// +optional
	Transfer string `json:"transfer,omitempty"`
	// peer for people: the name of the Peer, or "(this cluster)".
	// +optional
	Peer string `json:"peer,omitempty"`
	// phase for people.
	// +optional
	Phase TransferPhase `json:"phase,omitempty"`
	// reason of the condition Ready of its Transfer.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message of that condition.
	// +optional
	Message string `json:"message,omitempty"`
	// runID of its Transfer's run.
	// +optional
	RunID string `json:"runID,omitempty"`
	// attempt of that run.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// failures of the run.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// sent is the number of the attempt that the pod of status.run sends, or has sent; 0: it is not one of its
	// destinations.
	// +optional
	Sent int32 `json:"sent,omitempty"`
	// delivery is the name of the Delivery of the attempt, of a destination in this cluster.
	// +optional
	Delivery string `json:"delivery,omitempty"`
	// receipt is the name of the ConfigMap with the receipt of the run, if there is one.
	// +optional
	Receipt string `json:"receipt,omitempty"`
	// completionTime of the run.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// percent of the run's progress.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// files that are at the destination.
	// +optional
	Files int64 `json:"files,omitempty"`
	// bytes that are at the destination.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// bytesTotal found at the source so far.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
}
