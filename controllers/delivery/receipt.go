// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/receipt"
	"github.com/lighterage/lighterage/controllers/receiptkey"
)

// sign writes this cluster's part of the receipt of a Delivery that is complete, and countersigns what the sending
// cluster has signed. The part is in status before anybody can be told of it, and does not change any more.
func (r *Reconciler) sign(ctx context.Context, delivery *v1alpha1.Delivery) error {
	status := delivery.Status.Receipt
	if delivery.Status.Phase != v1alpha1.DeliveryComplete || status == nil || status.ConfigMapName != "" {
		return nil
	}
	if status.Part == "" {
		if err := r.writePart(ctx, delivery); err != nil {
			return err
		}
	}
	offer := delivery.Annotations[v1alpha1.ReceiptOfferAnnotation]
	if offer == "" {
		return nil
	}
	complete, err := r.countersign(ctx, delivery, []byte(offer))
	if errors.Is(err, receipt.ErrContradiction) || errors.Is(err, receipt.ErrMalformed) ||
		errors.Is(err, receipt.ErrSignature) || errors.Is(err, receiptkey.ErrNoKey) {
		// Trying again is of no use until another one is offered.
		return r.writeReceipt(ctx, delivery, *delivery.Status.Receipt, conditions.New(v1alpha1.ConditionReceiptSigned, false,
			v1alpha1.ReasonReceiptRejected, conditions.Shorten(err.Error())))
	}
	if err != nil {
		return err
	}
	of := delivery.Spec.Transfer
	kept := receipt.ConfigMap(delivery.Namespace, receipt.Run{Transfer: of.Name, ID: of.Run}, complete)
	if err := receiptkey.Keep(ctx, r.Client, kept); err != nil {
		return err
	}
	after := *delivery.Status.Receipt
	after.Envelope, after.ConfigMapName = string(complete), kept.Name
	return r.writeReceipt(ctx, delivery, after, conditions.New(v1alpha1.ConditionReceiptSigned, true,
		v1alpha1.ReasonSucceeded, fmt.Sprintf("both sides have signed the receipt: ConfigMap %s", kept.Name)))
}

// writePart states what this cluster observed.
func (r *Reconciler) writePart(ctx context.Context, delivery *v1alpha1.Delivery) error {
	key, err := r.Keys.Signing(ctx)
	if err != nil {
		return err
	}
	part := receipt.ReceiverOf(delivery, receipt.Signer{
		Cluster: r.Cluster, KeyID: key.ID(), Now: r.Clock.Now(),
	})
	text, err := part.Encode()
	if err != nil {
		return err
	}
	after := *delivery.Status.Receipt
	after.Part = string(text)
	return r.writeReceipt(ctx, delivery, after, conditions.New(v1alpha1.ConditionReceiptSigned, false,
		v1alpha1.ReasonReceiptPending, "everything was received; the sending cluster has not signed the receipt yet"))
}

func (r *Reconciler) countersign(ctx context.Context, delivery *v1alpha1.Delivery, offer []byte) ([]byte, error) {
	own, err := receipt.ParseReceiver([]byte(delivery.Status.Receipt.Part))
	if err != nil {
		return nil, fmt.Errorf("reading this cluster's part of the receipt: %w", err)
	}
	key, err := r.Keys.Private(ctx, own.KeyID)
	if err != nil {
		return nil, err
	}
	return receipt.Countersign(offer, *own, key)
}

func (r *Reconciler) writeReceipt(
	ctx context.Context, delivery *v1alpha1.Delivery, status v1alpha1.ReceiptStatus, state metav1.Condition,
) error {
	before := delivery.DeepCopy()
	delivery.Status.Receipt = &status
	delivery.Status.Conditions = conditions.Merge(delivery.Status.Conditions, []metav1.Condition{state},
		delivery.Generation, r.Clock.Now().Truncate(time.Second))
	_, err := conditions.WriteStatus(ctx, r.Client, before, delivery)
	return err
}
