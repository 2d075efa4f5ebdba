// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// transferState is a status without what changes all the time while an agent runs.
func transferState(status v1alpha1.TransferStatus) v1alpha1.TransferStatus {
	status.Progress, status.Decompression, status.CPU, status.Usage, status.Cost = nil, nil, nil, nil, nil
	status.Omissions = nil
	if status.Run != nil {
		run := *status.Run
		run.Usage, run.Cost = nil, nil
		status.Run = &run
	}
	if c := status.Compression; c != nil {
		status.Compression = &v1alpha1.CompressionStatus{Codec: c.Codec, Engine: c.Engine, Reason: c.Reason}
	}
	status.Conditions = attempt.WithoutMessages(status.Conditions)
	return status
}

// deliveryState is the same of a Delivery.
func deliveryState(status v1alpha1.DeliveryStatus) v1alpha1.DeliveryStatus {
	status.Progress, status.Compression, status.Decompression, status.Omissions = nil, nil, nil, nil
	status.CPU, status.Usage, status.Cost = nil, nil, nil
	status.Conditions = attempt.WithoutMessages(status.Conditions)
	return status
}
