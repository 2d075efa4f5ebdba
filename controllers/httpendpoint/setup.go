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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	later := builder.WithPredicates(wake.Later())
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.HTTPEndpoint{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(
			&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(wake.Labelled(r.Client, endpoints, v1alpha1.HTTPEndpointLabel)),
			later,
		).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.ofBackend), later).
		Watches(
			&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, endpoints)),
			wake.LaterIf(predicate.Or(specOrAnnotations, wake.CanaryChanged())),
		).
		Watches(
			&v1alpha1.LocalCompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, endpoints)),
			wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.ofTariff), wake.LaterIf(specOrAnnotations),
		).
		// Those that are not Ready. Others are planned again by the clock, where that changes anything.
		WatchesRawSource(o.Topology.Waiting(wake.Waiting(r.Client, endpoints))).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			wake.LaterIf(predicate.AnnotationChangedPredicate{})).
		WatchesRawSource(o.Reports.Source()).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the HTTPEndpoint controller: %w", err)
	}
	return nil
}

func endpoints() client.ObjectList { return &v1alpha1.HTTPEndpointList{} }

func (r *Reconciler) requests(
	ctx context.Context, keep func(*v1alpha1.HTTPEndpoint) bool, options ...client.ListOption,
) []reconcile.Request {
	return wake.Requests(ctx, r.Client, endpoints(), keep, options...)
}

func (r *Reconciler) ofBackend(ctx context.Context, service client.Object) []reconcile.Request {
	return r.requests(
		ctx, nil, client.InNamespace(service.GetNamespace()), client.MatchingFields{index.Backend: service.GetName()},
	)
}

// ofTariff is for those that decide by money, or ask for it, and those of which it is not known yet.
func (r *Reconciler) ofTariff(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(e *v1alpha1.HTTPEndpoint) bool {
		own, policy := e.Spec.Compression, e.Status.Policy
		return policy == nil || policy.Objective == v1alpha1.ObjectiveCost ||
			own != nil && own.Objective == v1alpha1.ObjectiveCost
	})
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(e *v1alpha1.HTTPEndpoint) bool {
		return e.Spec.PodTemplate != nil && e.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
