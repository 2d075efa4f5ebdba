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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
	// Writing a status is no reason to look again. A deletion that waits for a finalizer makes a new generation.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	later, specChanged := wake.LaterIf(), wake.LaterIf(predicate.GenerationChangedPredicate{})
	err := r.line.Watch(ctrl.NewControllerManagedBy(mgr), &v1alpha1.Queue{}).
		For(&v1alpha1.Queue{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofLabel), later).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim), later).
		Watches(
			&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, queues)),
			wake.LaterIf(predicate.Or(specOrAnnotations, wake.CanaryChanged())),
		).
		Watches(
			&v1alpha1.LocalCompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, queues)),
			wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.ofTariff), wake.LaterIf(specOrAnnotations),
		).
		Watches(&v1alpha1.ObjectStore{}, handler.EnqueueRequestsFromMapFunc(r.ofStore), later).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.ofQueue), specChanged).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer), specChanged).
		Watches(&v1alpha1.PeerGrant{}, handler.EnqueueRequestsFromMapFunc(r.ofGrant), specChanged).
		// Those that are not Ready. Others are planned again by the clock, where that changes anything.
		WatchesRawSource(o.Topology.Waiting(wake.Waiting(r.Client, queues))).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			wake.LaterIf(predicate.AnnotationChangedPredicate{})).
		WatchesRawSource(o.Reports.Source()).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the Queue controller: %w", err)
	}
	return nil
}

func queues() client.ObjectList { return &v1alpha1.QueueList{} }

func (r *Reconciler) requests(
	ctx context.Context, keep func(*v1alpha1.Queue) bool, options ...client.ListOption,
) []reconcile.Request {
	return wake.Requests(ctx, r.Client, queues(), keep, options...)
}

// ofClaim is for claims of members, and for those with archives.
func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	if claim.GetLabels()[v1alpha1.QueueLabel] != "" {
		return r.ofLabel(ctx, claim)
	}
	return r.requests(
		ctx, nil, client.InNamespace(claim.GetNamespace()), client.MatchingFields{index.ArchiveClaim: claim.GetName()},
	)
}

// ofLabel is for pods and claims.
func (r *Reconciler) ofLabel(ctx context.Context, object client.Object) []reconcile.Request {
	return wake.Labelled(r.Client, queues, v1alpha1.QueueLabel)(ctx, object)
}

// ofQueue is for the Queues of its namespace that a Queue sends to, or, of a change, sent to, and those that send within
// the namespace: they may send to it, and their channels may lead back.
func (r *Reconciler) ofQueue(ctx context.Context, object client.Object) []reconcile.Request {
	changed, ok := object.(*v1alpha1.Queue)
	if !ok {
		return nil
	}
	requests := r.requests(
		ctx, nil, client.InNamespace(changed.Namespace), client.MatchingFields{index.SendsHere: index.Yes},
	)
	for _, channel := range changed.Spec.SendingChannels() {
		if channel.Peer == "" {
			requests = append(requests, reconcile.Request{
				NamespacedName: client.ObjectKey{Namespace: changed.Namespace, Name: channel.Queue},
			})
		}
	}
	return requests
}

// ofPeer is for the Queues that send to a Peer, and those that a PeerGrant opens to it.
func (r *Reconciler) ofPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	requests := r.requests(ctx, nil, client.MatchingFields{index.Peer: peer.GetName()})
	grants := &v1alpha1.PeerGrantList{}
	if err := r.Client.List(ctx, grants, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "PeerGrants cannot be listed")
		return requests
	}
	for i := range grants.Items {
		if slices.ContainsFunc(grants.Items[i].Spec.From, func(from v1alpha1.PeerGrantFrom) bool {
			return from.Peer == peer.GetName()
		}) {
			requests = append(requests, r.ofGrant(ctx, &grants.Items[i])...)
		}
	}
	return requests
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

// ofTariff is for those that decide by money, or ask for it, and those of which it is not known yet.
func (r *Reconciler) ofTariff(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(q *v1alpha1.Queue) bool {
		own, policy := q.Spec.Compression, q.Status.Policy
		return policy == nil || policy.Objective == v1alpha1.ObjectiveCost ||
			own != nil && own.Objective == v1alpha1.ObjectiveCost
	})
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(q *v1alpha1.Queue) bool {
		return q.Spec.PodTemplate != nil && q.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
