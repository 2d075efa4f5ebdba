// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeerGrantFrom names who may.
type PeerGrantFrom struct {
	// peer names a Peer, another cluster. Absent: namespaces are those of this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Peer string `json:"peer,omitempty"`
	// namespaces of that cluster whose objects may.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`
	// transfers are the names of the Transfers that may. Absent: any of those namespaces. The manager makes grants of one
	// Transfer for Transfers that pull.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Transfers []string `json:"transfers,omitempty"`
}

// GrantedKind is a kind that a peer may write to.
// +kubebuilder:validation:Enum=PersistentVolumeClaim;Queue
type GrantedKind string

const (
	// GrantedPersistentVolumeClaim lets Transfers write into a claim.
	GrantedPersistentVolumeClaim GrantedKind = "PersistentVolumeClaim"
	// GrantedQueue lets Queues of a peer send to a Queue.
	GrantedQueue GrantedKind = "Queue"
)

// GrantedVerb is what may be done with a claim.
// +kubebuilder:validation:Enum=Write;Read
type GrantedVerb string

const (
	// GrantedWrite lets Transfers write into the claim, and is what a grant without verbs allows.
	GrantedWrite GrantedVerb = "Write"
	// GrantedRead lets Transfers of a peer pull from the claim.
	GrantedRead GrantedVerb = "Read"
)

// PeerGrantTo names what may be written or read.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verbs) || self.kind == 'PersistentVolumeClaim'",message="verbs are about claims; remove them, or write kind: PersistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="!has(self.verbs) || 'Write' in self.verbs || !has(self.create) && !has(self.maxSnapshots) && !(has(self.allowDelete) && self.allowDelete) && !(has(self.allowPrivileged) && self.allowPrivileged)",message="create, maxSnapshots, allowDelete and allowPrivileged are about writing; add Write to verbs, or remove them"
// +kubebuilder:validation:XValidation:rule="self.kind == 'PersistentVolumeClaim' || !has(self.path) && !has(self.create) && !has(self.maxSnapshots) && !(has(self.allowDelete) && self.allowDelete) && !(has(self.allowPrivileged) && self.allowPrivileged)",message="path, create, maxSnapshots, allowDelete and allowPrivileged are about claims; remove them, or write kind: PersistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="!has(self.create) || has(self.name)",message="create is of one claim; add name: a grant for claims of any name would let a peer create any number of them"
type PeerGrantTo struct {
	// kind of the object.
	// +required
	Kind GrantedKind `json:"kind,omitempty"`
	// name of the object in the grant's namespace. Absent: every object of that kind there.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// verbs are what may be done with a claim. Absent: Write. Read lets Transfers with source.peer in the namespaces of
	// from, which must name a Peer, read it: the manager of this cluster makes a Transfer for each in this namespace,
	// which counts against the quotas here. A gateway or a manager of an earlier release ignores verbs and allows to
	// write.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Verbs []GrantedVerb `json:"verbs,omitempty"`
	// path is the directory of a claim that may be written or read, with everything in it. Absent: the whole volume. A
	// Transfer into or from another directory is rejected.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute, from the root of the volume; write for example /data"
	// +kubebuilder:validation:XValidation:rule="self == '/' || !self.substring(1).split('/').exists(p, p == '..' || p == '.' || p == '')",message="path must not contain . or .., nor empty elements, nor end in /; write for example /data/in"
	Path string `json:"path,omitempty"`
	// allowDelete lets Transfers with spec.delete remove what their source does not have, within path. They are
	// rejected without it.
	// +optional
	AllowDelete bool `json:"allowDelete,omitempty"`
	// allowPrivileged lets Transfers keep owners, setuid and setgid and file capabilities, which takes a receiving
	// agent that runs as root. They are rejected without it. The annotation lighterage.dev/allow-privileged-agents:
	// "true" on the namespace is necessary in addition.
	// +optional
	AllowPrivileged bool `json:"allowPrivileged,omitempty"`
	// create lets Transfers with a template create the claim of this name, and make it larger if it was created so.
	// Absent: they may not.
	// +optional
	Create *PeerGrantCreate `json:"create,omitempty"`
	// maxSnapshots lets Transfers of a peer with destination.snapshot have VolumeSnapshots taken of the claim, whose
	// retention may keep at most so many. All that were taken of the claim for peers are at most that many and one, which
	// is taken before another is removed, and up to three more while they are not ready. Those of Transfers that were
	// deleted count until somebody deletes them. Absent: such Transfers are rejected.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxSnapshots int32 `json:"maxSnapshots,omitempty"`
}

// PeerGrantSpec says who may write or read what in the grant's namespace. Any of from may do so with any of to.
type PeerGrantSpec struct {
	// from names who may.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	From []PeerGrantFrom `json:"from,omitempty"`
	// to names what may be written or read. Who may write into a claim learns whether guesses of what it holds are right: a
	// sender is told digests of the parts, of 4 KiB at the least, of files that it sends again, and can compare them
	// with its guesses. Grant a directory of its own by path where what lies beside it is secret.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	To []PeerGrantTo `json:"to,omitempty"`
	// expirationTime is when the grant ends: from then on it allows nothing, and what runs by it is ended. Absent:
	// never.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`
}

// PeerGrantStatus is what was seen of a grant.
type PeerGrantStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (everything named exists, and the grant has not expired), Reconciling, Stalled (it has
	// expired).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// usedBy sums up the Deliveries and Queues of the grant's own namespace that receive by it, and the Transfers there
	// that were pulled by it. Deliveries are deleted
	// some time after they have ended. Of Queues the messages count as they travelled.
	// +optional
	UsedBy *UsedByStatus `json:"usedBy,omitempty"`
}

// PeerGrant lets objects of another cluster, or of other namespaces of this one, write into its namespace, or Transfers
// of another cluster read from it. Without one nothing is admitted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from[*].peer`
// +kubebuilder:printcolumn:name="Namespaces",type=string,JSONPath=`.spec.from[*].namespaces[*]`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.to[*].name`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expirationTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Last use",type=date,JSONPath=`.status.usedBy.lastUseTime`,priority=1
// +kubebuilder:printcolumn:name="Allows",type=string,JSONPath=`.spec.to`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type PeerGrant struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says who may write what.
	// +required
	Spec PeerGrantSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status PeerGrantStatus `json:"status,omitzero"`
}

// PeerGrantList is a list of PeerGrants.
// +kubebuilder:object:root=true
type PeerGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PeerGrant `json:"items"`
}
