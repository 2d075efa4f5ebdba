// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// gatherLocal looks at a destination in this cluster.
func (r *Reconciler) gatherLocal(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.IsLocal(transfer) {
		return nil
	}
	namespace, claimName := plan.DestinationNamespace(transfer), transfer.Spec.Destination.PersistentVolumeClaim.ClaimName
	request := peergrant.Request{
		Namespace: transfer.Namespace, Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: namespace, Name: claimName,
	}
	grants := &v1alpha1.PeerGrantList{}
	if err := r.Client.List(ctx, grants, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing PeerGrants in %s: %w", namespace, err)
	}
	if !peergrant.Allowed(grants.Items, request) {
		facts.Local.Refusal = peergrant.Refusal(request)
	}
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: namespace, Name: claimName}, claim)
	if err != nil {
		return err
	}
	if found {
		facts.Local.Claim = claim
	}
	if plan.NeedsPlacement(transfer.Status.Run, transfer.Status.Placement) {
		reach, err := topology.Facts(ctx, r.Client, namespace, claimName)
		if err != nil {
			return err
		}
		facts.Local.Volume = reach.Volume
	}
	deliveries := &v1alpha1.DeliveryList{}
	if err := r.Client.List(ctx, deliveries, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing Deliveries in %s: %w", namespace, err)
	}
	facts.Local.Deliveries = deliveries.Items
	facts.Local.Writers, err = r.Attempts.Writers(ctx, transfer, r.Clock.Now())
	return err
}

// deliver makes the Delivery of an attempt within this cluster.
func (r *Reconciler) deliver(ctx context.Context, delivery *v1alpha1.Delivery) error {
	err := r.Client.Create(ctx, delivery, client.FieldOwner(conditions.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Delivery %s: %w", client.ObjectKeyFromObject(delivery), err)
	}
	return nil
}

// dismiss deletes Deliveries, whose finalizers end their agents.
func (r *Reconciler) dismiss(ctx context.Context, deliveries []v1alpha1.Delivery) error {
	for i := range deliveries {
		delivery := &deliveries[i]
		err := r.Client.Delete(ctx, delivery, client.Preconditions{UID: &delivery.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting Delivery %s: %w", client.ObjectKeyFromObject(delivery), err)
		}
	}
	return nil
}

// dismissAll is withdraw for a Transfer within this cluster.
func (r *Reconciler) dismissAll(ctx context.Context, transfer *v1alpha1.Transfer) error {
	deliveries := &v1alpha1.DeliveryList{}
	namespace := plan.DestinationNamespace(transfer)
	label := client.MatchingLabels{plan.SenderLabel: plan.SenderHash("", transfer.Namespace, transfer.Name)}
	if err := r.Client.List(ctx, deliveries, client.InNamespace(namespace), label); err != nil {
		return fmt.Errorf("listing Deliveries in %s: %w", namespace, err)
	}
	own := plan.OwnDeliveries(transfer, deliveries.Items)
	if err := r.dismiss(ctx, own); err != nil || transfer.Status.Run == nil {
		return err
	}
	// The one of the present attempt may have been made a moment ago and not be in the cache yet.
	err := r.Client.Delete(ctx, plan.LocalDelivery(transfer))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Delivery of the present attempt: %w", err)
	}
	return nil
}
