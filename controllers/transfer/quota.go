// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

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

// gatherQuotas looks at what limits the namespace.
func (r *Reconciler) gatherQuotas(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	var err error
	facts.Quota.Quotas, err = lookup.DataQuotas(ctx, r.Client, transfer.Namespace)
	return err
}

// decide has package plan decide, and the namespace's quotas admit what it wants started. written is to be called when
// the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts,
) (decision plan.TransferDecision, written func(), err error) {
	decision, written = plan.DecideTransfer(transfer, facts, r.Image), func() {}
	if decision.Ask == nil {
		return decision, written, nil
	}
	view := func(reader client.Reader) func() (quota.View, error) {
		return func() (quota.View, error) { return r.view(ctx, reader, transfer.Namespace, facts.Quota.Quotas) }
	}
	answer, written, err := r.turns.Admit(transfer.Namespace, *decision.Ask, view(r.Client), view(r.Reader))
	if err != nil {
		return decision, written, err
	}
	facts.Quota.Answer = &answer
	return plan.DecideTransfer(transfer, facts, r.Image), written, nil
}

// view is what a namespace's Transfers hold and wait for. Pods of attempts that are over hold something too, as long as
// they run: whoever removes a Job or a Transfer from under its pod gains nothing.
func (r *Reconciler) view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
) (quota.View, error) {
	transfers := &v1alpha1.TransferList{}
	if err := reader.List(ctx, transfers, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return quota.View{}, fmt.Errorf("listing Transfers in %s: %w", namespace, err)
	}
	view := quota.Transfers(quotas, transfers.Items)
	present := map[string]bool{}
	for i := range transfers.Items {
		if _, holds := quota.TransferHolds(&transfers.Items[i]); holds {
			present[attemptName(&transfers.Items[i])] = true
		}
	}
	strays, err := r.Attempts.Strays(ctx, namespace, v1alpha1.TransferLabel, present, r.Clock.Now())
	for _, pod := range strays {
		view.Held = append(view.Held, quota.Held{ID: pod, Amounts: quota.Amounts{quota.RunningTransfers: 1}})
	}
	return view, err
}

// freed lets pass what may leave something to another Transfer of the namespace that waits: one gives back what it
// held, or waits no more and holds nothing.
func freed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*v1alpha1.Transfer)
			after, is := e.ObjectNew.(*v1alpha1.Transfer)
			if !was || !is {
				return false
			}
			held, had := quota.TransferHolds(before)
			holds, has := quota.TransferHolds(after)
			_, waited := quota.TransferWaits(before)
			_, waits := quota.TransferWaits(after)
			less := had && holds.Amounts[quota.Bandwidth] < held.Amounts[quota.Bandwidth]
			return less || had && !has || waited && !waits && !has
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

// queued lets pass that a Transfer begins to wait. It looks once more: what it waits for may have been given back
// before anybody could see that it waits.
func queued() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*v1alpha1.Transfer)
			after, is := e.ObjectNew.(*v1alpha1.Transfer)
			return was && is && before.Status.Queued == nil && after.Status.Queued != nil
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// ofNext wakes those of a namespace whose turn it is.
func (r *Reconciler) ofNext(ctx context.Context, object client.Object) []reconcile.Request {
	namespace := object.GetNamespace()
	quotas, err := lookup.DataQuotas(ctx, r.Client, namespace)
	if err == nil && len(quotas) == 0 {
		return nil // nobody waits, or is woken by ofQuota
	}
	var view quota.View
	if err == nil {
		view, err = r.view(ctx, r.Client, namespace, quotas)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Transfers that wait for a quota cannot be found")
		return nil
	}
	next := map[string]bool{}
	for _, id := range quota.Next(view) {
		next[id] = true
	}
	if len(next) == 0 {
		return nil
	}
	isNext := func(t *v1alpha1.Transfer) bool { return next[string(t.UID)] }
	return r.requests(ctx, isNext, client.InNamespace(namespace))
}

// ofQuota wakes all that wait in a namespace, whose limits have changed.
func (r *Reconciler) ofQuota(ctx context.Context, object client.Object) []reconcile.Request {
	queued := func(t *v1alpha1.Transfer) bool { return t.Status.Queued != nil }
	return r.requests(ctx, queued, client.InNamespace(object.GetNamespace()))
}
