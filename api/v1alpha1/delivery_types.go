// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TransferReference names one attempt of a Transfer.
type TransferReference struct {
	// namespace of the Transfer in its own cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the Transfer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// run is the run's identifier.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run,omitempty"`
	// attempt counts from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
}

// DeliveryDestination is where a Delivery writes.
type DeliveryDestination struct {
	// persistentVolumeClaim in the Delivery's namespace.
	// +required
	PersistentVolumeClaim PersistentVolumeClaimPath `json:"persistentVolumeClaim,omitzero"`
	// template of the claim, if the Transfer has one: what is created if the claim does not exist, and how large it is
	// to be. A PeerGrant must allow it by create.
	// +optional
	Template *ClaimRequest `json:"template,omitempty"`
	// snapshot has a VolumeSnapshot taken of the claim when the Delivery is Complete, and removes those of earlier runs of
	// the Transfer that the retention does not keep. A PeerGrant must allow it by maxSnapshots.
	// +optional
	Snapshot *DeliverySnapshot `json:"snapshot,omitempty"`
}

// AgentPrivilege is what an agent may do that an ordinary user may not.
// +kubebuilder:validation:Enum=None;KeepOwners
type AgentPrivilege string

const (
	// AgentPrivilegeNone is that of an ordinary user; the same as none stated.
	AgentPrivilegeNone AgentPrivilege = "None"
	// AgentPrivilegeKeepOwners is root's, with the capabilities CHOWN, DAC_OVERRIDE, FOWNER, FSETID and SETFCAP.
	AgentPrivilegeKeepOwners AgentPrivilege = "KeepOwners"
)

// DeliverySpec is written by the gateway when it has admitted a run, or by the manager for a Transfer of this cluster.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Delivery is made for a Transfer and never changes; change the Transfer in the sending cluster"
type DeliverySpec struct {
	// peer names the Peer whose CA vouched for the sender. Absent: the Transfer is of this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Peer string `json:"peer,omitempty"`
	// transfer that is received.
	// +required
	Transfer TransferReference `json:"transfer,omitzero"`
	// destination that is written.
	// +required
	Destination DeliveryDestination `json:"destination,omitzero"`
	// privilege that the Transfer asks for, so that owners, setuid and setgid and file capabilities are kept. The
	// receiving agent gets it when its namespace has the annotation lighterage.dev/allow-privileged-agents: "true";
	// otherwise what cannot be kept is counted in omissions.
	// +optional
	Privilege AgentPrivilege `json:"privilege,omitempty"`
	// delete is spec.delete of the Transfer: what the source does not have is removed at the destination. The receiving
	// agent removes nothing without it, whatever the sending agent asks for.
	// +optional
	Delete bool `json:"delete,omitempty"`
	// sourceVolumeMode is the volumeMode of the source, which that of the claim must be. Absent: the sender is of an
	// earlier release, and its agent compares them.
	// +optional
	// +kubebuilder:validation:Enum=Filesystem;Block
	SourceVolumeMode corev1.PersistentVolumeMode `json:"sourceVolumeMode,omitempty"`
}

// DeliveryPhase sums up a Delivery for people. Programs read conditions.
// +kubebuilder:validation:Enum=Pending;Starting;Waiting;Receiving;Complete;Failed
type DeliveryPhase string

const (
	DeliveryPending   DeliveryPhase = "Pending"
	DeliveryStarting  DeliveryPhase = "Starting"
	DeliveryWaiting   DeliveryPhase = "Waiting"
	DeliveryReceiving DeliveryPhase = "Receiving"
	DeliveryComplete  DeliveryPhase = "Complete"
	DeliveryFailed    DeliveryPhase = "Failed"
)

// DeliveryStatus is what was seen of a Delivery.
type DeliveryStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, ReceiptSigned, DestinationFits, HistoryKept.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase for people.
	// +optional
	Phase DeliveryPhase `json:"phase,omitempty"`
	// peer for people: the name of the Peer that the data come from, or "(this cluster)".
	// +optional
	Peer string `json:"peer,omitempty"`
	// serverName is the TLS server name by which the gateway passes the sender through to the receiving agent. Set when
	// the agent is ready for it.
	// +optional
	ServerName string `json:"serverName,omitempty"`
	// endpoint is the host and port of the receiving agent inside the cluster.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// run names the node and times of the receiving agent.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// placement of the receiving agent.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// progress of what is received.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// compression of what was received, by the headers of its blocks. They name neither the engine nor why it was used,
	// so that engine, level, reason, reasons, skipped and estimate are unset.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`
	// decompression by the receiving agent.
	// +optional
	Decompression *DecompressionStatus `json:"decompression,omitempty"`
	// cpu of the receiving agent.
	// +optional
	CPU *CPUStatus `json:"cpu,omitempty"`
	// usage of the receiving agent as far as it was reported.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// cost of receiving at the prices in force: this cluster's CPU time, and bytes on the wire at the price for the
	// Peer and the direction Receive. Absent while there are no prices, and where the Transfer is of this cluster,
	// whose own cost has it.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
	// receipt of the run, if the Transfer asks for one and this was its last attempt.
	// +optional
	Receipt *ReceiptStatus `json:"receipt,omitempty"`
	// omissions name what could not be kept.
	// +optional
	// +listType=map
	// +listMapKey=what
	Omissions []Omission `json:"omissions,omitempty"`
	// snapshots of the claim after this and earlier runs of the Transfer, with spec.destination.snapshot: of the newest
	// run first. Of earlier runs time is when the VolumeSnapshot was made.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Snapshots []SnapshotStatus `json:"snapshots,omitempty"`
}

// Delivery is the receiving side of one attempt of a Transfer of another cluster, or of another pod of this one. The
// gateway, or for a Transfer of this cluster the manager, makes it when a PeerGrant allows the Transfer, and it goes
// when the Transfer goes or makes its next attempt.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9][-a-z0-9]*-[a-z0-9]{1,6}-[1-9][0-9]{0,5}-[0-9a-f]{8}$')",message="a Delivery is named <transfer>-<run>-<attempt>-<8 hexadecimal digits> and is made by the gateway or the manager; make a Transfer instead"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a Delivery is also that of its Job: at most 63 characters"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.peer`
// +kubebuilder:printcolumn:name="Transfer",type=string,JSONPath=`.spec.transfer.name`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.destination.persistentVolumeClaim.claimName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.progress.percent`,description="percent"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.run.node`,priority=1
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.transfer.run`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="CPU/GiB",type=string,JSONPath=`.status.cpu.secondsPerGiB`,priority=1,description="CPU seconds of this side per GiB"
// +kubebuilder:printcolumn:name="Inflated by",type=string,JSONPath=`.status.decompression.reason`,priority=1,description="HardwareUsed, or why software inflated"
type Delivery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was admitted.
	// +required
	Spec DeliverySpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status DeliveryStatus `json:"status,omitzero"`
}

// DeliveryList is a list of Deliveries.
// +kubebuilder:object:root=true
type DeliveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Delivery `json:"items"`
}
