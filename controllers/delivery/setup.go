// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/plan"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	gone := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		// Writing a status is no reason to look again.
		For(&v1alpha1.Delivery{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofNext), builder.WithPredicates(attempt.PodEnded(v1alpha1.DeliveryLabel))).
		Watches(&v1alpha1.Delivery{}, handler.EnqueueRequestsFromMapFunc(r.ofNext), builder.WithPredicates(freed())).
		Watches(&v1alpha1.Delivery{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(queued())).
		Watches(&v1alpha1.DataQuota{}, handler.EnqueueRequestsFromMapFunc(r.ofQuota), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Delivery{}, handler.EnqueueRequestsFromMapFunc(r.ofRival), builder.WithPredicates(gone)).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Concurrency)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the Delivery controller: %w", err)
	}
	return nil
}

// requests lists Deliveries; an error is logged, as there is nobody to return it to, and the clock looks again later.
func (r *Reconciler) requests(ctx context.Context, namespace string, keep func(*v1alpha1.Delivery) bool) []reconcile.Request {
	deliveries := &v1alpha1.DeliveryList{}
	if err := r.Client.List(ctx, deliveries, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "Deliveries cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range deliveries.Items {
		if keep(&deliveries.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&deliveries.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	uid := types.UID(pod.GetLabels()[v1alpha1.DeliveryLabel])
	if uid == "" {
		return nil
	}
	return r.requests(ctx, pod.GetNamespace(), func(d *v1alpha1.Delivery) bool { return d.UID == uid })
}

// ofRival wakes those that wait for a Delivery that is gone now.
func (r *Reconciler) ofRival(ctx context.Context, rival client.Object) []reconcile.Request {
	return r.requests(ctx, rival.GetNamespace(), func(d *v1alpha1.Delivery) bool { return !plan.DeliveryEnded(d) })
}
