// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeerLimits cap what the Transfers of all namespaces use of the link to a Peer. What is absent is not limited.
//
// +kubebuilder:validation:XValidation:rule="has(self.runningTransfers) || has(self.bandwidth)",message="at least one of runningTransfers and bandwidth must be given; remove limits to limit nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.bandwidth) || quantity(string(self.bandwidth)).compareTo(quantity('256Ki')) >= 0 && quantity(string(self.bandwidth)).compareTo(quantity('1Pi')) <= 0",fieldPath=".bandwidth",message="bandwidth must be between 256Ki and 1Pi bytes per second; write for example 200Mi"
type PeerLimits struct {
	// runningTransfers is how many Transfers to the Peer run at a time. What exceeds it waits in phase Queued; the
	// namespace that has the fewest runs for its weight is next. 0: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RunningTransfers *int32 `json:"runningTransfers,omitempty"`
	// bandwidth is how many bytes per second the sending agents of all Transfers to the Peer write to the wire at most,
	// all together. Namespaces with running Transfers share it by weight; shares change while Transfers run. Each run
	// has 256Ki at least.
	// +optional
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty"`
}

// PeerConnection is which cluster of two dials the other.
//
// +kubebuilder:validation:Enum=Dial;Listen;Both
type PeerConnection string

// Values of PeerConnection.
const (
	PeerDial   PeerConnection = "Dial"
	PeerListen PeerConnection = "Listen"
	PeerBoth   PeerConnection = "Both"
)

// PeerProxy is an HTTP proxy that makes connections by CONNECT.
type PeerProxy struct {
	// url of the proxy, as http://host:port. TLS to the peer passes through it from end to end; what is said to the
	// proxy itself is not encrypted.
	// +required
	// +kubebuilder:validation:MinLength=10
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^http://([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}/?$')",message="url must be http://host:port, without credentials or a path; write for example http://proxy.example:3128"
	URL string `json:"url,omitempty"`
	// credentialsKey is the key in Secret lighterage-proxies of the operator's namespace that holds user and password
	// for the proxy, as user:password@host:port with the host and port of url. Absent: the proxy wants none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="credentialsKey must be lower-case letters, digits and '-'"
	CredentialsKey string `json:"credentialsKey,omitempty"`
}

// PeerSpec says how to reach and recognise the other cluster. It holds public material only and is safe in Git.
//
// +kubebuilder:validation:XValidation:rule="!has(self.connection) || self.connection != 'Dial' || has(self.endpoint)",message="connection: Dial needs the endpoint that is dialled"
// +kubebuilder:validation:XValidation:rule="!has(self.connection) || self.connection != 'Listen' || !has(self.endpoint)",message="connection: Listen means that the other cluster is not dialled; remove endpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.proxy) || has(self.endpoint)",message="proxy needs the endpoint that is dialled through it"
type PeerSpec struct {
	// endpoint is the host and port of the other cluster's gateway. Absent: runs from this peer are accepted, none can
	// be sent to it but with connection: Listen, or through an object store, by destination.via of a Transfer.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}$')",message="endpoint must be host:port, without a scheme or path; write for example gateway.west.example:8443"
	Endpoint string `json:"endpoint,omitempty"`

	// connection says which cluster dials the other. Dial: this one, which the other cannot reach; its gateway keeps
	// control connections to endpoint, and dials whatever connection the other wants. Listen: the other one, which this
	// one cannot reach; the Peer there has Dial. Both, as when absent: each dials the other's endpoint.
	// +optional
	Connection PeerConnection `json:"connection,omitempty"`

	// proxy makes all connections to endpoint. Absent: they are made directly.
	// +optional
	Proxy *PeerProxy `json:"proxy,omitempty"`

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

	// limits cap the Transfers of this cluster to the Peer. A lower limit stops nothing that runs. Absent: none.
	// +optional
	Limits *PeerLimits `json:"limits,omitempty"`
}

// PeerControlStatus is what is known of the control connections with a Peer, of which one cluster dials the other.
type PeerControlStatus struct {
	// connections that are there, of all replicas of the gateway together.
	// +optional
	Connections int32 `json:"connections,omitempty"`
	// since is when the oldest of them was made.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// lastError is why one ended last, or could not be made, with connection: Dial.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// lastErrorTime is when it came first.
	// +optional
	LastErrorTime *metav1.Time `json:"lastErrorTime,omitempty"`
}

// PeerStatus is what was seen of the other cluster.
type PeerStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, and Connected with spec.connection Dial or Listen.
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
	// control is about control connections, with spec.connection Dial or Listen.
	// +optional
	Control *PeerControlStatus `json:"control,omitempty"`
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
// +kubebuilder:printcolumn:name="Connection",type=string,JSONPath=`.spec.connection`,priority=1
// +kubebuilder:printcolumn:name="Control",type=integer,JSONPath=`.status.control.connections`,priority=1,description="control connections"
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
