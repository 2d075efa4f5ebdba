// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/wake"
)

// gatherWhole looks at the Transfer that this one is a leg of.
func (r *Reconciler) gatherWhole(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	owner := plan.WholeOf(transfer)
	if owner == nil {
		return nil
	}
	whole := &v1alpha1.Transfer{}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: transfer.Namespace, Name: owner.Name}, whole)
	if found && whole.UID == owner.UID {
		facts.Whole = whole
	}
	return err
}

// gatherLegs looks at the legs of a Transfer.
func (r *Reconciler) gatherLegs(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.HasLegs(transfer) {
		return nil
	}
	facts.Legs = map[string]plan.LegFacts{}
	for _, name := range plan.Destinations(transfer) {
		seen, err := r.leg(ctx, transfer, name)
		if err != nil {
			return err
		}
		facts.Legs[name] = seen
	}
	return nil
}

// leg looks at the leg for a destination, and at what it is sent to.
func (r *Reconciler) leg(ctx context.Context, whole *v1alpha1.Transfer, destination string) (plan.LegFacts, error) {
	leg := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: whole.Namespace, Name: plan.LegName(whole.Name, destination)}
	found, err := lookup.Get(ctx, r.Client, key, leg)
	if err != nil || !found {
		return plan.LegFacts{}, err
	}
	if !plan.IsLegOf(leg, whole) {
		return plan.LegFacts{Foreign: true}, nil
	}
	seen := plan.LegFacts{Transfer: leg}
	if !plan.IsLocal(leg) {
		peer := &v1alpha1.Peer{}
		if found, err = lookup.Get(ctx, r.Client, client.ObjectKey{Name: leg.Spec.Destination.Peer}, peer); found {
			seen.Peer = peer
		}
		return seen, err
	}
	if leg.Status.Run == nil || !plan.IntoClaim(leg) {
		return seen, nil
	}
	delivery := &v1alpha1.Delivery{}
	found, err = lookup.Get(ctx, r.Client, client.ObjectKeyFromObject(plan.LocalDelivery(leg)), delivery)
	if found {
		seen.Delivery = delivery
	}
	return seen, err
}

// keepLegs makes, changes and deletes legs.
func (r *Reconciler) keepLegs(
	ctx context.Context, whole *v1alpha1.Transfer, facts plan.TransferFacts, decision plan.TransferDecision,
) error {
	for i := range decision.Dismiss {
		if err := r.deleteLeg(ctx, &decision.Dismiss[i]); err != nil {
			return err
		}
	}
	present := map[string]*v1alpha1.Transfer{}
	for _, leg := range facts.Legs {
		if leg.Transfer != nil {
			present[leg.Transfer.Name] = leg.Transfer
		}
	}
	for i := range decision.Legs {
		wanted := &decision.Legs[i]
		before := present[wanted.Name]
		if before == nil {
			err := r.Client.Create(ctx, wanted, client.FieldOwner(conditions.FieldOwner))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating Transfer %s for a destination of %q: %w", client.ObjectKeyFromObject(wanted),
					whole.Name, err)
			}
			continue
		}
		after := before.DeepCopy()
		after.Spec = wanted.Spec
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[v1alpha1.RunAnnotation] = wanted.Annotations[v1alpha1.RunAnnotation]
		if err := r.Client.Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(conditions.FieldOwner)); err != nil {
			return fmt.Errorf("changing Transfer %s for a destination of %q: %w", client.ObjectKeyFromObject(wanted),
				whole.Name, err)
		}
	}
	return nil
}

func (r *Reconciler) deleteLeg(ctx context.Context, leg *v1alpha1.Transfer) error {
	err := r.Client.Delete(ctx, leg, client.Preconditions{UID: &leg.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Transfer %s of a destination: %w", client.ObjectKeyFromObject(leg), err)
	}
	return nil
}

// endLegs deletes the legs of a Transfer that is being deleted; waiting is true while there are any.
func (r *Reconciler) endLegs(ctx context.Context, whole *v1alpha1.Transfer) (waiting bool, err error) {
	for _, name := range plan.Destinations(whole) {
		seen, err := r.leg(ctx, whole, name)
		if err != nil {
			return false, err
		}
		if seen.Transfer == nil {
			continue
		}
		waiting = true
		if seen.Transfer.DeletionTimestamp == nil {
			if err := r.deleteLeg(ctx, seen.Transfer); err != nil {
				return false, err
			}
		}
	}
	return waiting, nil
}

// familyChanged lets pass what concerns legs, or the Transfer that one is of.
var familyChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*v1alpha1.Transfer)
		after, isAfter := e.ObjectNew.(*v1alpha1.Transfer)
		return isBefore && isAfter && plan.FamilyChanged(before, after)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return true },
}

// ofFamily are the legs of a Transfer, or the one that it is a leg of.
func ofFamily(_ context.Context, object client.Object) []reconcile.Request {
	transfer, ok := object.(*v1alpha1.Transfer)
	if !ok {
		return nil
	}
	if owner := plan.WholeOf(transfer); owner != nil {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: transfer.Namespace, Name: owner.Name}}}
	}
	return legsOf(transfer)
}

func legsOf(whole *v1alpha1.Transfer) []reconcile.Request {
	var requests []reconcile.Request
	for i := range whole.Spec.Destinations {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{
			Namespace: whole.Namespace, Name: plan.LegName(whole.Name, whole.Spec.Destinations[i].Name),
		}})
	}
	return requests
}

// ofPod are the Transfer whose agent a pod has, and its legs.
func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	requests := wake.OfAttempt(r.Client, "Transfer", transfers, v1alpha1.TransferLabel)(ctx, pod)
	for _, request := range requests {
		whole := &v1alpha1.Transfer{}
		found, err := lookup.Get(ctx, r.Client, request.NamespacedName, whole)
		if err == nil && found {
			requests = append(requests, legsOf(whole)...)
		}
	}
	return requests
}
