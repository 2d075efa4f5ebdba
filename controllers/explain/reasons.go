// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"

// sentences document the reasons of status.compression. A test holds that none is missing.
var sentences = map[string]string{
	v1alpha1.CompressionHardwareUsed: "the accelerator compressed",
	v1alpha1.CompressionSoftwareUsed: "software compressed, as the policy asked",
	v1alpha1.CompressionNoAccelerator: "software compressed, because the node has no accelerator that is known to " +
		"work",
	v1alpha1.CompressionSelfTestFailed: "software compressed, because the node has an accelerator whose use could " +
		"not be proved, or which the library did not use",
	v1alpha1.CompressionLevelNotAccelerated: "software compressed, because the accelerator does not do the policy's level",
	v1alpha1.CompressionCodecNotAccelerated: "software compressed, because no accelerator does the codec agreed with " +
		"the peer",
	v1alpha1.CompressionAcceleratorBusy: "software compressed, because the accelerator took several times as long as " +
		"before, as it does when others use it",
	v1alpha1.CompressionAcceleratorShare: "software compressed, because the agent had used its share of the node's " +
		"accelerator",
	v1alpha1.CompressionBelowMinimum:     "not attempted: smaller than the policy's minSize",
	v1alpha1.CompressionSoftwareDisabled: "not attempted: there is no accelerator, and the policy or the object forbids software",
	v1alpha1.CompressionIncompressible:   "not attempted: a sample predicted that it would not pay",
	v1alpha1.CompressionNetworkFaster: "not attempted: the objective is Elapsed, and network and receiver take the " +
		"data sooner as they are than they could be compressed",
	v1alpha1.CompressionDiskFaster: "not attempted: the objective is Elapsed, and what keeps messages takes those like it " +
		"sooner as they are than they could be compressed",
	v1alpha1.CompressionDidNotShrink: "attempted, did not shrink, sent as it is",
	v1alpha1.CompressionPolicyNever:  "not attempted: the policy says Never",
	v1alpha1.CompressionPeerRefused:  "not attempted: the other side accepts none of the policy's codecs",
	v1alpha1.CompressionNoNetwork: "not attempted: the data cross no network, so there are no bytes on a wire to " +
		"save",
	v1alpha1.CompressionStoredAsIs: "not attempted: objects hold the data as they are, so that other tools read them",
	v1alpha1.CompressionAlreadyCompressed: "not attempted: the data was compressed before and travels as it rests at the " +
		"source",
	v1alpha1.CompressionOtherContentType: "not attempted: the type of the body is not one that is compressed",
	v1alpha1.CompressionAlreadyEncoded: "not attempted: the backend had encoded the body, or the client had " +
		"compressed the message",
	v1alpha1.CompressionNoTransform:     "not attempted: client or backend forbid it with Cache-Control: no-transform",
	v1alpha1.CompressionPartialContent:  "not attempted: the response is a part of something",
	v1alpha1.CompressionCrossSiteCookie: "not attempted: the response sets a cookie that another site could have asked for",
	v1alpha1.CompressionBusy:            "not attempted: as many bodies as allowed were being compressed",
	v1alpha1.CompressionCPUBudget: "not attempted: compressing would take more CPU time than the objective finds " +
		"it worth, or the sender's cores were too busy",
	v1alpha1.CompressionCPUDearer: "not attempted: compressing what is like it takes more CPU time than sending or " +
		"storing fewer bytes saves, or the replica's cores were too busy",
	v1alpha1.CompressionEngineFailed:  "the engine failed, and the body was sent, or the message stored, as it is",
	v1alpha1.CompressionOff:           "not attempted: compression.minSize of the Queue is 0, which turns it off",
	v1alpha1.CompressionNothingToSend: "nothing had to be sent, so nothing was decided",
}

// placementSentences document the reasons of status.placement that compression does not have, or means otherwise.
var placementSentences = map[string]string{
	v1alpha1.PlacementReasonHardware: "the node has an accelerator that works",
	v1alpha1.PlacementReasonAnyNode:  "accelerators were not looked at",
	v1alpha1.PlacementReasonClaimBound: "the claim's volume can be reached from certain nodes only, or is in use " +
		"on one, which wins over the accelerator",
	v1alpha1.PlacementReasonNoRoom: "the scheduler chose another node, or none yet; most often because " +
		"resources are exhausted",
	v1alpha1.PlacementReasonCordoned:          "the node takes no new pods",
	v1alpha1.PlacementReasonNotReady:          "the node's kubelet does not report that it is ready",
	v1alpha1.PlacementReasonTainted:           "the node has a taint that the agent does not tolerate",
	v1alpha1.PlacementReasonImageArchitecture: "the agent's image was not built for the node's architecture",
	v1alpha1.PlacementReasonAcceleratorBusy: "as many agents as may share the node's accelerator are there, or wait " +
		"to be placed there, already",
	v1alpha1.PlacementReasonNotSelected: "the node is not of the class that the object asks for",
	v1alpha1.PlacementReasonEligible:    "nothing speaks against the node",
	v1alpha1.CompressionNoAccelerator: "no accelerator that is known to work, or its node agent does not answer " +
		"or is not believed; its NodeProfile says which",
	v1alpha1.CompressionSelfTestFailed:      "the accelerator's use is not proved; its NodeProfile says why",
	v1alpha1.CompressionLevelNotAccelerated: "the accelerator does not do the policy's level",
	v1alpha1.CompressionCodecNotAccelerated: "no accelerator does the first of the policy's codecs",
}

// sentence is what documents a reason. One that is not known comes from a newer agent.
func sentence(of map[string]string, reason string) string {
	if s, ok := of[reason]; ok {
		return s
	}
	return "a reason that this version of the plugin does not know; use the plugin of the operator's version"
}
