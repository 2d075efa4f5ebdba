// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// hardwareMessages say what each reason means, for the condition HardwareCompression.
var hardwareMessages = map[string]string{
	v1alpha1.CompressionHardwareUsed:  "the accelerator compresses",
	v1alpha1.CompressionSoftwareUsed:  "software compresses, as the policy asks",
	v1alpha1.CompressionNoAccelerator: "software compresses: the node has no accelerator that is known to work",
	v1alpha1.CompressionSelfTestFailed: "software compresses: the node has an accelerator, but its use could not be " +
		"proved or it was not used for most blocks; status.accelerator of the NodeProfile says why",
	v1alpha1.CompressionLevelNotAccelerated: "software compresses: the node's accelerator does not compress at the " +
		"policy's level; status.accelerator of the NodeProfile says at which it does",
	v1alpha1.CompressionCodecNotAccelerated: "software compresses: the codec agreed with the peer is zstd, which no " +
		"accelerator does; to use one, name only deflate in codecs",
	v1alpha1.CompressionBelowMinimum: "most blocks are smaller than the policy's minSize and are sent as they are",
	v1alpha1.CompressionSoftwareDisabled: "nothing is compressed: the node has no accelerator that is known to work, " +
		"and the policy or spec.compression.software forbids software",
	v1alpha1.CompressionIncompressible: "most data is sent as it is: samples predict that it would not shrink",
	v1alpha1.CompressionNetworkFaster: "most data is sent as it is: that takes less time over this network than " +
		"compressing, and the objective is Elapsed; to save bytes set prices, or the objective Bytes",
	v1alpha1.CompressionCPUBudget: "most data is sent as it is: compressing would take more CPU time than the policy's " +
		"objective finds it worth, or the sender's cores are too busy",
	v1alpha1.CompressionAcceleratorBusy: "software compresses: the accelerator takes several times as long as before, " +
		"as it does when others use it",
	v1alpha1.CompressionAcceleratorShare: "software compresses: the agent's share of the node's accelerator is used up; a " +
		"DataQuota gives its namespace a greater weight",
	v1alpha1.CompressionDidNotShrink:      "most data is sent as it is: it did not shrink",
	v1alpha1.CompressionPolicyNever:       "nothing is compressed: the policy says Never",
	v1alpha1.CompressionPeerRefused:       "nothing is compressed: the peer accepts none of the policy's codecs",
	v1alpha1.CompressionNoNetwork:         "nothing is compressed: the data cross no network",
	v1alpha1.CompressionStoredAsIs:        "nothing is compressed: objects hold the data as they are",
	v1alpha1.CompressionAlreadyCompressed: "most data is sent compressed as it rests at the source, and not compressed again",
	v1alpha1.CompressionNothingToSend:     "nothing had to be sent",
}

// corrected is where an agent is, after it has found no accelerator on a node that is taken for one with an
// accelerator.
func corrected(where *v1alpha1.PlacementStatus, found *v1alpha1.CompressionStatus) *v1alpha1.PlacementStatus {
	if where == nil || found == nil || where.Node == "" || where.Reason != v1alpha1.PlacementReasonHardware ||
		found.Reason != v1alpha1.CompressionNoAccelerator {
		return where
	}
	truth := where.DeepCopy()
	truth.Engine, truth.Reason = found.Engine, v1alpha1.CompressionNoAccelerator
	truth.Message = "the agent finds no accelerator on this node, although its NodeProfile or a label says that one " +
		"works there; see whether the node agent runs the manager's version, and restart it"
	return truth
}

// hardwareCondition is absent until something was decided. Where there is no accelerator it says why the agent is where
// it is.
func hardwareCondition(status *v1alpha1.CompressionStatus, where *v1alpha1.PlacementStatus) []metav1.Condition {
	if status == nil {
		return nil
	}
	reason, used := status.Reason, agentreport.HardwareUsed(status)
	if used {
		reason = v1alpha1.CompressionHardwareUsed
	}
	message, known := hardwareMessages[reason]
	if !known {
		return nil
	}
	if reason == v1alpha1.CompressionNoAccelerator && where != nil && where.Message != "" &&
		where.Reason != v1alpha1.PlacementReasonHardware {
		message += "; " + where.Message
	}
	return []metav1.Condition{conditions.New(v1alpha1.ConditionHardwareCompression, used, reason, message)}
}
