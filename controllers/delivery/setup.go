// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	later := builder.WithPredicates(wake.Later())
	gone := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
	err := r.line.Watch(ctrl.NewControllerManagedBy(mgr), &v1alpha1.Delivery{}).
		// Writing a status is no reason to look again.
		For(&v1alpha1.Delivery{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
		)).
		Owns(&batchv1.Job{}).
		Watches(
			&corev1.Pod{},
			handler.EnqueueRequestsFromMapFunc(wake.OfAttempt(r.Client, "Delivery", deliveries, v1alpha1.DeliveryLabel)), later,
		).
		Watches(&v1alpha1.Delivery{}, handler.EnqueueRequestsFromMapFunc(r.ofRival), builder.WithPredicates(gone)).
		WatchesRawSource(o.Reports.Source()).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the Delivery controller: %w", err)
	}
	return nil
}

func deliveries() client.ObjectList { return &v1alpha1.DeliveryList{} }

// ofRival wakes those that wait for a Delivery that is gone now.
func (r *Reconciler) ofRival(ctx context.Context, object client.Object) []reconcile.Request {
	rival, ok := object.(*v1alpha1.Delivery)
	if !ok {
		return nil
	}
	into := client.MatchingFields{index.WrittenClaim: rival.Spec.Destination.PersistentVolumeClaim.ClaimName}
	return wake.Requests[*v1alpha1.Delivery](ctx, r.Client, deliveries(), nil, client.InNamespace(rival.Namespace), into)
}
