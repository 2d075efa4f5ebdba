// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/receipt"
)

// Receipt passes what both clusters state of a run from one manager to the other, by way of the Delivery. It signs
// nothing and has no key.
func (s *service) Receipt(ctx context.Context, in *wirev1.ReceiptRequest) (_ *wirev1.ReceiptResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("Receipt", from, err) }()
	if err != nil {
		return nil, err
	}
	if err := validateTransfer(in.GetNamespace(), in.GetName()); err != nil {
		return nil, err
	}
	if from.identity.Path != pki.ManagerPath {
		return nil, untrusted("the certificate names %s, and only a manager may ask for a receipt", from.identity.Path)
	}
	if n := len(in.GetEnvelope()); n > receipt.MaxBytes {
		return nil, invalid("the receipt has %d bytes; the limit is %d", n, receipt.MaxBytes)
	}
	// From the cache, as a peer asks at any rate: what it lacks yet, the manager asks for again for a minute.
	deliveries, err := s.cached(ctx, from.peer, in.GetNamespace(), in.GetName())
	if err != nil {
		s.log.Error(err, "Deliveries cannot be listed")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	for i := range deliveries {
		of := deliveries[i].Spec.Transfer
		if of.Run == in.GetRunId() && uint32(max(0, of.Attempt)) == in.GetAttempt() { //nolint:gosec // not negative
			return s.receipt(ctx, deliveries[i].DeepCopy(), in.GetEnvelope()) // not the cache's own is changed
		}
	}
	return &wirev1.ReceiptResponse{Gone: true}, nil
}

// receipt answers from a Delivery, and leaves with it what the sending cluster offers.
func (s *service) receipt(
	ctx context.Context, delivery *v1alpha1.Delivery, offer []byte,
) (*wirev1.ReceiptResponse, error) {
	if delivery.Status.Phase == v1alpha1.DeliveryFailed {
		return &wirev1.ReceiptResponse{Gone: true}, nil
	}
	status := delivery.Status.Receipt
	if status == nil || delivery.Status.Phase != v1alpha1.DeliveryComplete || status.Part == "" {
		return &wirev1.ReceiptResponse{}, nil
	}
	if status.ConfigMapName != "" {
		return &wirev1.ReceiptResponse{Receiver: []byte(status.Part), Envelope: []byte(status.Envelope)}, nil
	}
	if len(offer) > 0 && delivery.Annotations[v1alpha1.ReceiptOfferAnnotation] != string(offer) {
		// Only what could be countersigned is kept; the manager looks again and in full.
		if _, err := receipt.Offered(offer); err != nil {
			return nil, invalid("the receipt cannot be signed: %v", err)
		}
		before := delivery.DeepCopy()
		metav1.SetMetaDataAnnotation(&delivery.ObjectMeta, v1alpha1.ReceiptOfferAnnotation, string(offer))
		if err := s.options.Client.Patch(ctx, delivery, client.MergeFrom(before)); err != nil {
			s.log.Error(err, "Receipt cannot be passed on", "delivery", keyOf(delivery))
			return nil, unavailable("the gateway cannot reach its API server now")
		}
	}
	return &wirev1.ReceiptResponse{Receiver: []byte(status.Part)}, nil
}
