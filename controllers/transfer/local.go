// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// gatherLocal looks at a destination in this cluster.
func (r *Reconciler) gatherLocal(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.IsLocal(transfer) || plan.HasLegs(transfer) {
		return nil
	}
	namespace, claimName := plan.DestinationNamespace(transfer), transfer.Spec.Destination.PersistentVolumeClaim.ClaimName
	grants := &v1alpha1.PeerGrantList{}
	if err := r.Client.List(ctx, grants, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing PeerGrants in %s: %w", namespace, err)
	}
	facts.Local.Refusal = peergrant.Decide(grants.Items, grantRequest(transfer), facts.Now).Refusal
	var err error
	if plan.IntoClaim(transfer) {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: namespace, Name: claimName}, claim)
		if err != nil {
			return err
		}
		if found {
			facts.Local.Claim = claim
		}
	}
	if !plan.UsesStore(transfer) && !plan.Scrubs(transfer) && attempt.NeedsPlacement(transfer.Status.Run, transfer.Status.Placement) {
		if facts.Local.Volume, err = r.Topology.Volume(ctx, namespace, claimName); err != nil {
			return err
		}
	}
	if facts.Local.Deliveries, err = r.deliveries(ctx, transfer); err != nil {
		return err
	}
	if facts.Local.Writers, err = r.Attempts.Writers(ctx, transfer, r.Clock.Now()); err != nil {
		return err
	}
	facts.Local.Rivals, err = r.rivals(ctx, transfer, grants.Items, facts.Now)
	return err
}

// deliveries are those that write into the destination now, and the Transfer's own, which may have ended.
func (r *Reconciler) deliveries(ctx context.Context, transfer *v1alpha1.Transfer) ([]v1alpha1.Delivery, error) {
	namespace := plan.DestinationNamespace(transfer)
	var all []v1alpha1.Delivery
	for _, which := range []client.MatchingFields{
		{index.WrittenClaim: transfer.Spec.Destination.PersistentVolumeClaim.ClaimName},
		{index.Sender: plan.SenderHash("", transfer.Namespace, transfer.Name)},
	} {
		found := &v1alpha1.DeliveryList{}
		if err := r.Client.List(ctx, found, client.InNamespace(namespace), which, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Deliveries in %s: %w", namespace, err)
		}
		all = append(all, found.Items...)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Delivery) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b v1alpha1.Delivery) bool { return a.Name == b.Name }), nil
}

// grantRequest is what a PeerGrant must allow for a Transfer within this cluster.
func grantRequest(transfer *v1alpha1.Transfer) peergrant.Request {
	return peergrant.Request{
		Namespace: transfer.Namespace, Transfer: transfer.Name, Kind: v1alpha1.GrantedPersistentVolumeClaim,
		ToNamespace: plan.DestinationNamespace(transfer), Name: transfer.Spec.Destination.PersistentVolumeClaim.ClaimName,
		Path: transfer.Spec.Destination.PersistentVolumeClaim.Path, Delete: transfer.Spec.Delete,
		Privileged: plan.PrivilegeAskedFor(transfer) == v1alpha1.AgentPrivilegeKeepOwners,
	}
}

// rivals are the Transfers of other namespaces into the same claim that the grants allow.
func (r *Reconciler) rivals(
	ctx context.Context, transfer *v1alpha1.Transfer, grants []v1alpha1.PeerGrant, now time.Time,
) ([]v1alpha1.Transfer, error) {
	found := &v1alpha1.TransferList{}
	into := client.MatchingFields{index.Destination: plan.DestinationKey(transfer)}
	if err := r.Client.List(ctx, found, into, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Transfers into %s: %w", plan.DestinationKey(transfer), err)
	}
	return slices.DeleteFunc(found.Items, func(other v1alpha1.Transfer) bool {
		return other.Namespace == transfer.Namespace || !peergrant.Allowed(grants, grantRequest(&other), now)
	}), nil
}

// deliver makes the Delivery of an attempt within this cluster.
func (r *Reconciler) deliver(ctx context.Context, delivery *v1alpha1.Delivery) error {
	err := r.Client.Create(ctx, delivery, client.FieldOwner(conditions.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return refusal.Elsewhere(fmt.Errorf("creating Delivery %s: %w", client.ObjectKeyFromObject(delivery), err))
	}
	return nil
}

// dismiss deletes Deliveries, whose finalizers end their agents.
func (r *Reconciler) dismiss(ctx context.Context, deliveries []v1alpha1.Delivery) error {
	for i := range deliveries {
		delivery := &deliveries[i]
		err := r.Client.Delete(ctx, delivery, client.Preconditions{UID: &delivery.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return refusal.Elsewhere(fmt.Errorf("deleting Delivery %s: %w", client.ObjectKeyFromObject(delivery), err))
		}
	}
	return nil
}

// dismissAll is withdraw for a Transfer within this cluster.
func (r *Reconciler) dismissAll(ctx context.Context, transfer *v1alpha1.Transfer) error {
	deliveries, err := r.deliveries(ctx, transfer)
	if err != nil {
		return err
	}
	if err := r.dismiss(ctx, plan.OwnDeliveries(transfer, deliveries)); err != nil || transfer.Status.Run == nil {
		return err
	}
	// The one of the present attempt may have been made a moment ago and not be in the cache yet.
	err = r.Client.Delete(ctx, plan.LocalDelivery(transfer))
	if client.IgnoreNotFound(err) != nil {
		return refusal.Elsewhere(fmt.Errorf("deleting the Delivery of the present attempt: %w", err))
	}
	return nil
}
