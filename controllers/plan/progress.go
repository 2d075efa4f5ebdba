// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// News reports whether a report may change more of a status than progress. Whatever transferState and its like keep of
// a report counts.
func News(before, after *wirev1.Report) bool {
	was, is := before.GetCompression(), after.GetCompression()
	return before.GetState() != after.GetState() || before.GetArchitecture() != after.GetArchitecture() ||
		was.GetCodec() != is.GetCodec() || was.GetEngine() != is.GetEngine() || was.GetReason() != is.GetReason()
}

// transferState is a status without what changes all the time while an agent runs.
func transferState(status v1alpha1.TransferStatus) v1alpha1.TransferStatus {
	status.Progress, status.Decompression, status.CPU, status.Cost, status.Omissions = nil, nil, nil, nil, nil
	if c := status.Compression; c != nil {
		status.Compression = &v1alpha1.CompressionStatus{Codec: c.Codec, Engine: c.Engine, Reason: c.Reason}
	}
	status.Conditions = withoutMessages(status.Conditions)
	return status
}

// deliveryState is the same of a Delivery.
func deliveryState(status v1alpha1.DeliveryStatus) v1alpha1.DeliveryStatus {
	status.Progress, status.Decompression, status.CPU, status.Omissions = nil, nil, nil, nil
	status.Conditions = withoutMessages(status.Conditions)
	return status
}

// trialState is the same of a CompressionTrial, whose agent tells in the messages how far it is.
func trialState(status v1alpha1.CompressionTrialStatus) v1alpha1.CompressionTrialStatus {
	status.Conditions = withoutMessages(status.Conditions)
	return status
}

func withoutMessages(conditions []metav1.Condition) []metav1.Condition {
	all := make([]metav1.Condition, len(conditions))
	for i, condition := range conditions {
		condition.Message = ""
		all[i] = condition
	}
	return all
}
