// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of status.placement and of its alternatives. NoAccelerator, SelfTestFailed, LevelNotAccelerated and
// CodecNotAccelerated are there too, with the meaning that they have for compression.
const (
	// PlacementReasonHardware: the node has an accelerator that works.
	PlacementReasonHardware = "HardwareNode"
	// PlacementReasonAnyNode: the policy does not look at accelerators, or compresses nothing.
	PlacementReasonAnyNode = "AnyNode"
	// PlacementReasonClaimBound: the claim's volume can be mounted on certain nodes only, or is mounted on one and can
	// be mounted on no other. That takes precedence over the accelerator.
	PlacementReasonClaimBound = "ClaimBound"
	// PlacementReasonNoRoom: the scheduler chose another node, or none yet, although this one could have been chosen.
	// Most often the node lacks free CPU or memory.
	PlacementReasonNoRoom = "NoRoom"
	// PlacementReasonCordoned: the node is cordoned. Uncordon it to use its accelerator.
	PlacementReasonCordoned = "Cordoned"
	// PlacementReasonNotReady: the node's kubelet does not report that it is ready.
	PlacementReasonNotReady = "NotReady"
	// PlacementReasonTainted: the node has a taint that the agent does not tolerate. Add the toleration to
	// spec.podTemplate.tolerations.
	PlacementReasonTainted = "Tainted"
	// PlacementReasonImageArchitecture: the agent's image was not built for the node's architecture.
	PlacementReasonImageArchitecture = "ImageArchitecture"
	// PlacementReasonAcceleratorBusy: the agents that may share the node's accelerator are placed there, or wait to be
	// placed. Agents count that compress for Transfers and those of CompressionTrials with class Hardware; receivers,
	// HTTPEndpoints and Queues do not. The manager's flag --accelerator-slots sets the number.
	PlacementReasonAcceleratorBusy = "AcceleratorBusy"
	// PlacementReasonNotSelected: the node is not of the class that the object asks for.
	PlacementReasonNotSelected = "NotSelected"
	// PlacementReasonEligible: the node could be chosen.
	PlacementReasonEligible = "Eligible"
)

// PlacementAlternative is a node with an accelerator that an agent does not run on.
type PlacementAlternative struct {
	// node by name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// engine that would compress there.
	// +optional
	Engine string `json:"engine,omitempty"`
	// reason why the agent is not there: ClaimBound, NoRoom, AcceleratorBusy, Cordoned, NotReady, Tainted,
	// ImageArchitecture, SelfTestFailed, LevelNotAccelerated, NoAccelerator, NotSelected, or Eligible where nothing
	// speaks against the node.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// PlacementStatus says where an agent runs and why there.
//
// +structType=atomic
type PlacementStatus struct {
	// node that the agent runs on; empty until the scheduler has chosen one.
	// +optional
	Node string `json:"node,omitempty"`
	// engine that is expected to work there by the node's NodeProfile; of a sender it compresses, of a receiver it
	// inflates deflate. Empty until it is known. What did the work is in status.compression and status.decompression.
	// +optional
	Engine string `json:"engine,omitempty"`
	// reason: HardwareNode, AnyNode, NoAccelerator, AcceleratorBusy, ClaimBound, NoRoom, LevelNotAccelerated or
	// CodecNotAccelerated.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// alternatives are nodes that have, or are said to have, an accelerator, and why the agent is not there: at most 8.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=8
	Alternatives []PlacementAlternative `json:"alternatives,omitempty"`
}
