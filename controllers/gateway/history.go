// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// History passes what the manager here says of the VolumeSnapshots of a Transfer's destination to the manager of its
// cluster, from the status of the Delivery.
func (s *service) History(ctx context.Context, in *wirev1.HistoryRequest) (_ *wirev1.HistoryResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("History", from, err) }()
	if err != nil {
		return nil, err
	}
	if err := validateTransfer(in.GetNamespace(), in.GetName()); err != nil {
		return nil, err
	}
	if from.identity.Path != pki.ManagerPath {
		return nil, untrusted("the certificate names %s, and only a manager may ask for history", from.identity.Path)
	}
	// From the cache, as for receipts.
	deliveries, err := s.cached(ctx, from.peer, in.GetNamespace(), in.GetName())
	if err != nil {
		s.log.Error(err, "Deliveries cannot be listed")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	answer := &wirev1.HistoryResponse{Gone: true}
	for i := range deliveries {
		delivery := &deliveries[i]
		switch {
		case delivery.Spec.Transfer.Run != in.GetRunId() || delivery.Spec.Destination.Snapshot == nil:
		case delivery.Status.Phase == v1alpha1.DeliveryComplete:
			return plan.HistoryOf(delivery), nil
		case !plan.DeliveryEnded(delivery):
			answer = &wirev1.HistoryResponse{}
		}
	}
	return answer, nil
}
