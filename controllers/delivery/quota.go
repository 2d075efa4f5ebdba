// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch

func (r *Reconciler) quotas(ctx context.Context, namespace string) ([]v1alpha1.DataQuota, error) {
	return lookup.DataQuotas(ctx, r.Client, namespace)
}

// decide has package plan decide, and the namespace's quotas admit what it wants started. written is to be called when
// the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, delivery *v1alpha1.Delivery, facts plan.DeliveryFacts,
) (decision plan.DeliveryDecision, written func(), err error) {
	decision, written = plan.DecideDelivery(delivery, facts, r.Image), func() {}
	if decision.Ask == nil {
		return decision, written, nil
	}
	view := func(reader client.Reader) func() (quota.View, error) {
		return func() (quota.View, error) { return r.view(ctx, reader, delivery.Namespace, facts.Quota.Quotas) }
	}
	answer, written, err := r.turns.Admit(delivery.Namespace, *decision.Ask, view(r.Client), view(r.Reader))
	if err != nil {
		return decision, written, err
	}
	facts.Quota.Answer = &answer
	return plan.DecideDelivery(delivery, facts, r.Image), written, nil
}

// view is what a namespace's Deliveries hold and wait for. Pods whose Delivery or Job is gone hold something too, as
// long as they run.
func (r *Reconciler) view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
) (quota.View, error) {
	deliveries := &v1alpha1.DeliveryList{}
	if err := reader.List(ctx, deliveries, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return quota.View{}, fmt.Errorf("listing Deliveries in %s: %w", namespace, err)
	}
	view := quota.Deliveries(quotas, deliveries.Items)
	present := map[string]bool{}
	for i := range deliveries.Items {
		if _, holds := quota.DeliveryHolds(&deliveries.Items[i]); holds {
			present[deliveries.Items[i].Name] = true
		}
	}
	strays, err := r.Attempts.Strays(ctx, namespace, v1alpha1.DeliveryLabel, present, r.Clock.Now())
	for _, pod := range strays {
		view.Held = append(view.Held, quota.Held{ID: pod, Amounts: quota.Amounts{quota.RunningDeliveries: 1}})
	}
	return view, err
}

// freed lets pass what may leave something to another Delivery of the namespace that waits: one gives back what it
// held, or waits no more and holds nothing.
func freed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*v1alpha1.Delivery)
			after, is := e.ObjectNew.(*v1alpha1.Delivery)
			if !was || !is {
				return false
			}
			_, had := quota.DeliveryHolds(before)
			_, has := quota.DeliveryHolds(after)
			_, waited := quota.DeliveryWaits(before)
			_, waits := quota.DeliveryWaits(after)
			return had && !has || waited && !waits && !has
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

// queued lets pass that a Delivery begins to wait. It looks once more: what it waits for may have been given back
// before anybody could see that it waits.
func queued() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*v1alpha1.Delivery)
			after, is := e.ObjectNew.(*v1alpha1.Delivery)
			if !was || !is {
				return false
			}
			_, waited := quota.DeliveryWaits(before)
			_, waits := quota.DeliveryWaits(after)
			return !waited && waits
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// ofNext wakes those of a namespace whose turn it is.
func (r *Reconciler) ofNext(ctx context.Context, object client.Object) []reconcile.Request {
	namespace := object.GetNamespace()
	quotas, err := r.quotas(ctx, namespace)
	if err == nil && len(quotas) == 0 {
		return nil // nobody waits, or is woken by ofQuota
	}
	var view quota.View
	if err == nil {
		view, err = r.view(ctx, r.Client, namespace, quotas)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Deliveries that wait for a quota cannot be found")
		return nil
	}
	next := map[string]bool{}
	for _, id := range quota.Next(view) {
		next[id] = true
	}
	if len(next) == 0 {
		return nil
	}
	return r.requests(ctx, namespace, func(d *v1alpha1.Delivery) bool { return next[string(d.UID)] })
}

// ofQuota wakes all that wait in a namespace, whose limits have changed.
func (r *Reconciler) ofQuota(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), func(d *v1alpha1.Delivery) bool {
		_, waits := quota.DeliveryWaits(d)
		return waits
	})
}
