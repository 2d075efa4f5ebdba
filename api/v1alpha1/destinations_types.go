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
