// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataquota says in the status of DataQuotas what of their limits is used. It admits nothing: the controllers
// of what is limited do, by package quota.
package dataquota

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas;transfers;deliveries;queues,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas/status,verbs=patch

// Options of Setup.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client  client.Client
	Metrics *metrics.Quotas
	Clock   clock.PassiveClock
}

// Reconciler is made by NewReconciler.
type Reconciler struct{ options Options }

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler { return &Reconciler{options: o} }

// Setup adds the controller to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	ofNamespace, changed := handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
		builder.WithPredicates(wake.Later(), holdsChanged())
	err := ctrl.NewControllerManagedBy(mgr).Named("dataquota").
		For(&v1alpha1.DataQuota{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Transfer{}, ofNamespace, changed).
		Watches(&v1alpha1.Delivery{}, ofNamespace, changed).
		Watches(&v1alpha1.Queue{}, ofNamespace, changed).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("adding the controller of DataQuotas: %w", err)
	}
	return nil
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.DataQuota{}
	err := r.options.Client.Get(ctx, request.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		r.options.Metrics.Forget(request.Namespace, request.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading DataQuota %s: %w", request.NamespacedName, err)
	}
	hard := quota.AmountsOf(object.Spec.Hard)
	var held []quota.Held
	if len(hard) > 0 {
		if held, err = r.held(ctx, request.Namespace); err != nil {
			return ctrl.Result{}, err
		}
	}
	used := quota.Used(hard, held)
	before := object.DeepCopy()
	object.Status.ObservedGeneration = object.Generation
	object.Status.Hard, object.Status.Used = object.Spec.Hard.DeepCopy(), used.API()
	inForce := conditions.Ready(v1alpha1.ReasonInForce, "What exceeds the limits waits")
	object.Status.Conditions = conditions.Merge(
		object.Status.Conditions, inForce, object.Generation, r.options.Clock.Now())
	_, err = conditions.WriteStatus(ctx, r.options.Client, before, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.options.Metrics.Observe(request.Namespace, request.Name, hard, used)
	return ctrl.Result{}, nil
}

// held is all that objects of a namespace hold.
func (r *Reconciler) held(ctx context.Context, namespace string) ([]quota.Held, error) {
	transfers, deliveries, queues := &v1alpha1.TransferList{}, &v1alpha1.DeliveryList{}, &v1alpha1.QueueList{}
	all := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	holding := append(all[:2:2], client.MatchingFields{index.Holds: index.Yes}) // Most Transfers have ended.
	for _, of := range []struct {
		list    client.ObjectList
		options []client.ListOption
	}{{transfers, holding}, {deliveries, all}, {queues, all}} {
		if err := r.options.Client.List(ctx, of.list, of.options...); err != nil {
			return nil, fmt.Errorf("listing %T in %s: %w", of.list, namespace, err)
		}
	}
	held := quota.Transfers(nil, transfers.Items).Held
	held = append(held, quota.Deliveries(nil, deliveries.Items).Held...)
	return append(held, quota.Queues(nil, queues.Items).Held...), nil
}

// holdsChanged lets pass what changes how much is used.
func holdsChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(holds(e.ObjectOld), holds(e.ObjectNew))
		},
	}
}

// holds is what one object holds.
func holds(object client.Object) (held quota.Held) {
	switch object := object.(type) {
	case *v1alpha1.Transfer:
		held, _ = quota.TransferHolds(object)
	case *v1alpha1.Delivery:
		held, _ = quota.DeliveryHolds(object)
	case *v1alpha1.Queue:
		held, _ = quota.QueueHolds(object)
	}
	return held
}

// ofNamespace lists the DataQuotas of an object's namespace that limit something, which others than weights do.
func (r *Reconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	limits := func(of *v1alpha1.DataQuota) bool { return len(quota.AmountsOf(of.Spec.Hard)) > 0 }
	return wake.Requests(
		ctx, r.options.Client, &v1alpha1.DataQuotaList{}, limits, client.InNamespace(object.GetNamespace()),
	)
}
