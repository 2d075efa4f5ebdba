// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
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

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	// Writing a status is no reason to look again. A deletion that waits for a finalizer makes a new generation.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Queue{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofLabel)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.PeerGrant{}, handler.EnqueueRequestsFromMapFunc(r.ofGrant), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(topology.NodeChanged())).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.ofNext), builder.WithPredicates(standingChanged())).
		Watches(&v1alpha1.DataQuota{}, handler.EnqueueRequestsFromMapFunc(r.ofQuota), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Concurrency)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the Queue controller: %w", err)
	}
	return nil
}

// requests lists Queues; an error is logged, as there is nobody to return it to, and the clock looks again later.
func (r *Reconciler) requests(ctx context.Context, keep func(*v1alpha1.Queue) bool, options ...client.ListOption) []reconcile.Request {
	queues := &v1alpha1.QueueList{}
	if err := r.Client.List(ctx, queues, options...); err != nil {
		log.FromContext(ctx).Error(err, "Queues cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range queues.Items {
		if keep(&queues.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&queues.Items[i])})
		}
	}
	return requests
}

// ofClaim is for claims of members, and for those with archives.
func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	if claim.GetLabels()[v1alpha1.QueueLabel] != "" {
		return r.ofLabel(ctx, claim)
	}
	return r.requests(ctx, func(q *v1alpha1.Queue) bool { return slices.Contains(claimNames(q.Spec), claim.GetName()) }, client.InNamespace(claim.GetNamespace()))
}

// ofLabel is for pods and claims.
func (r *Reconciler) ofLabel(ctx context.Context, object client.Object) []reconcile.Request {
	uid := types.UID(object.GetLabels()[v1alpha1.QueueLabel])
	if uid == "" {
		return nil
	}
	return r.requests(ctx, func(q *v1alpha1.Queue) bool { return q.UID == uid }, client.InNamespace(object.GetNamespace()))
}

// ofPeer is for the Queues that send to a Peer, and those that a PeerGrant opens to it.
func (r *Reconciler) ofPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	grants := &v1alpha1.PeerGrantList{}
	if err := r.Client.List(ctx, grants); err != nil {
		log.FromContext(ctx).Error(err, "PeerGrants cannot be listed")
		return nil
	}
	return r.requests(ctx, func(q *v1alpha1.Queue) bool {
		return q.Spec.Channel != nil && q.Spec.Channel.Peer == peer.GetName() || slices.ContainsFunc(grants.Items, func(grant v1alpha1.PeerGrant) bool {
			return opens(&grant, q) && slices.ContainsFunc(grant.Spec.From, func(from v1alpha1.PeerGrantFrom) bool { return from.Peer == peer.GetName() })
		})
	})
}

// ofGrant is for the Queues that a PeerGrant opens, or, of a change, opened.
func (r *Reconciler) ofGrant(ctx context.Context, object client.Object) []reconcile.Request {
	grant, ok := object.(*v1alpha1.PeerGrant)
	if !ok {
		return nil
	}
	return r.requests(ctx, func(q *v1alpha1.Queue) bool { return opens(grant, q) }, client.InNamespace(grant.Namespace))
}

// opens reports whether a Queue is among what a PeerGrant opens to whomever.
func opens(grant *v1alpha1.PeerGrant, queue *v1alpha1.Queue) bool {
	return grant.Namespace == queue.Namespace && slices.ContainsFunc(grant.Spec.To, func(to v1alpha1.PeerGrantTo) bool {
		return to.Kind == v1alpha1.GrantedQueue && (to.Name == "" || to.Name == queue.Name)
	})
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(*v1alpha1.Queue) bool { return true })
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(q *v1alpha1.Queue) bool {
		return q.Spec.PodTemplate != nil && q.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
