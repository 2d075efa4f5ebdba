// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/topology"
)

// backendIndex finds HTTPEndpoints by the Service that they name.
const backendIndex = "spec.backend.service.name"

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	byBackend := func(object client.Object) []string {
		endpoint, ok := object.(*v1alpha1.HTTPEndpoint)
		if !ok || endpoint.Spec.Backend.Service == nil {
			return nil
		}
		return []string{endpoint.Spec.Backend.Service.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.HTTPEndpoint{}, backendIndex, byBackend); err != nil {
		return fmt.Errorf("indexing HTTPEndpoints by backend: %w", err)
	}
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.HTTPEndpoint{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.ofBackend)).
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.ofPolicy), builder.WithPredicates(specOrAnnotations)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(topology.NodeChanged())).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Concurrency)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the HTTPEndpoint controller: %w", err)
	}
	return nil
}

// requests lists HTTPEndpoints; an error is logged, as there is nobody to return it to, and the clock looks again later.
func (r *Reconciler) requests(ctx context.Context, keep func(*v1alpha1.HTTPEndpoint) bool, options ...client.ListOption) []reconcile.Request {
	endpoints := &v1alpha1.HTTPEndpointList{}
	if err := r.Client.List(ctx, endpoints, options...); err != nil {
		log.FromContext(ctx).Error(err, "HTTPEndpoints cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range endpoints.Items {
		if keep == nil || keep(&endpoints.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&endpoints.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	uid := types.UID(pod.GetLabels()[v1alpha1.HTTPEndpointLabel])
	if uid == "" {
		return nil
	}
	return r.requests(ctx, func(e *v1alpha1.HTTPEndpoint) bool { return e.UID == uid }, client.InNamespace(pod.GetNamespace()))
}

func (r *Reconciler) ofBackend(ctx context.Context, service client.Object) []reconcile.Request {
	return r.requests(ctx, nil, client.InNamespace(service.GetNamespace()), client.MatchingFields{backendIndex: service.GetName()})
}

func (r *Reconciler) ofNode(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, nil)
}

func (r *Reconciler) ofPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, nil)
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(e *v1alpha1.HTTPEndpoint) bool {
		return e.Spec.PodTemplate != nil && e.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
