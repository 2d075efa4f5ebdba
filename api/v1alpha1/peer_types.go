// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeerSpec says how to reach and recognise the other cluster. It holds public material only and is safe in Git.
type PeerSpec struct {
	// endpoint is the host and port of the other cluster's gateway. Absent: runs from this peer are accepted, none can
	// be sent to it but through an object store, by destination.via of a Transfer.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}$')",message="endpoint must be host:port, without a scheme or path; write for example gateway.west.example:8443"
	Endpoint string `json:"endpoint,omitempty"`

	// caBundle is the other cluster's CA, as PEM in base64. The other cluster shows it in the ConfigMap lighterage-ca
	// of the operator's namespace. Several certificates may be given while a CA is being replaced.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`

	// revokedBefore revokes the certificates of this Peer that its cluster issued before this time, by the clock of
	// that cluster: the gateway rejects them, Deliveries that were opened with them end, and Queues close their
	// channels. Absent: none is revoked. A time in the future rejects what that cluster issues until then.
	// +optional
	RevokedBefore *metav1.Time `json:"revokedBefore,omitempty"`
}

// PeerStatus is what was seen of the other cluster.
type PeerStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// version of Lighterage that the peer runs.
	// +optional
	Version string `json:"version,omitempty"`
	// knownAs is the name under which the other cluster knows this one: the name of its Peer object, which PeerGrants
	// there use.
	// +optional
	KnownAs string `json:"knownAs,omitempty"`
	// caFingerprints are the SHA-256 fingerprints of caBundle's certificates, in hexadecimal.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	CAFingerprints []string `json:"caFingerprints,omitempty"`
	// caExpirationTime is when the last of caBundle's certificates expires.
	// +optional
	CAExpirationTime *metav1.Time `json:"caExpirationTime,omitempty"`
	// sent sums up the Transfers to the Peer and the Queues with a channel to it.
	// +optional
	Sent *UsedByStatus `json:"sent,omitempty"`
	// received sums up the Deliveries from the Peer. They are deleted some time after they have ended.
	// +optional
	Received *UsedByStatus `json:"received,omitempty"`
}

// Peer is another cluster that runs Lighterage.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=lighterage
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a Peer must be at most 63 characters long"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Known as",type=string,JSONPath=`.status.knownAs`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Sent",type=integer,JSONPath=`.status.sent.wireBytes`,priority=1,description="bytes on the wire, of the objects that exist"
// +kubebuilder:printcolumn:name="Received",type=integer,JSONPath=`.status.received.wireBytes`,priority=1,description="bytes on the wire, of the Deliveries that exist"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Peer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how to reach and recognise the other cluster.
	// +required
	Spec PeerSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status PeerStatus `json:"status,omitzero"`
}

// PeerList is a list of Peers.
// +kubebuilder:object:root=true
type PeerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Peer `json:"items"`
}
