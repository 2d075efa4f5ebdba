// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	later, specChanged := wake.LaterIf(), wake.LaterIf(predicate.GenerationChangedPredicate{})
	// Others may have the place that a Transfer has left, by its attempt's end or for good.
	left := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isBefore := e.ObjectOld.(*v1alpha1.Transfer)
			after, isAfter := e.ObjectNew.(*v1alpha1.Transfer)
			return isBefore && isAfter && plan.LeftPlace(before, after)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
	err := r.line.Watch(ctrl.NewControllerManagedBy(mgr), &v1alpha1.Transfer{}).
		For(&v1alpha1.Transfer{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&batchv1.Job{}).
		// Copies of sources.
		Owns(&corev1.PersistentVolumeClaim{}, later).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), later).
		Watches(
			&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(ofFamily), wake.LaterIf(familyChanged),
		).
		Watches(&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(r.ofRival), builder.WithPredicates(left)).
		Watches(&v1alpha1.Delivery{}, handler.EnqueueRequestsFromMapFunc(r.ofDelivery), later).
		Watches(&v1alpha1.PeerGrant{}, handler.EnqueueRequestsFromMapFunc(r.ofGrant), specChanged).
		Watches(&v1alpha1.ObjectStore{}, handler.EnqueueRequestsFromMapFunc(r.ofStore), later).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer), later).
		Watches(&v1alpha1.Peer{}, r.line.All(), specChanged).
		Watches(
			&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, transfers)),
			wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.LocalCompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(wake.OfPolicy(r.Client, transfers)),
			wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.ofTariff), wake.LaterIf(specOrAnnotations),
		).
		// Those that have an agent without a node.
		WatchesRawSource(o.Topology.Waiting(wake.Waiting(r.Client, transfers))).
		Watches(
			&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume),
			builder.WithPredicates(topology.Detached()),
		).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim), later).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			wake.LaterIf(predicate.AnnotationChangedPredicate{})).
		WatchesRawSource(o.Reports.Source()).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the Transfer controller: %w", err)
	}
	return nil
}

func transfers() client.ObjectList { return &v1alpha1.TransferList{} }

func (r *Reconciler) requests(
	ctx context.Context, keep func(*v1alpha1.Transfer) bool, options ...client.ListOption,
) []reconcile.Request {
	return wake.Requests(ctx, r.Client, transfers(), keep, options...)
}

func (r *Reconciler) ofRival(ctx context.Context, object client.Object) []reconcile.Request {
	rival, ok := object.(*v1alpha1.Transfer)
	if !ok || plan.HasLegs(rival) {
		return nil
	}
	return r.requests(ctx, nil, client.MatchingFields{index.Destination: plan.DestinationKey(rival)})
}

func (r *Reconciler) ofPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	return r.requests(ctx, nil, client.MatchingFields{index.Peer: peer.GetName()})
}

// ofTariff wakes those that cannot begin, as it may be for want of prices. Others look at prices when they report.
func (r *Reconciler) ofTariff(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool {
		return t.Status.Phase == v1alpha1.TransferPending || t.Status.Phase == v1alpha1.TransferQueued
	})
}

// ofVolume wakes those of them that want the volume of an attachment.
func (r *Reconciler) ofVolume(ctx context.Context, attachment client.Object) []reconcile.Request {
	claim, ok, err := r.Topology.ClaimOf(ctx, attachment)
	if err != nil {
		log.FromContext(ctx).Error(err, "The claim of a VolumeAttachment cannot be found")
	}
	if !ok {
		return nil
	}
	return r.mounting(ctx, claim.Namespace, claim.Name, plan.TransferWaitsForNode)
}

func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.mounting(ctx, claim.GetNamespace(), claim.GetName(), nil)
}

// mounting are those from a claim, and those within this cluster into it.
func (r *Reconciler) mounting(
	ctx context.Context, namespace, claim string, keep func(*v1alpha1.Transfer) bool,
) []reconcile.Request {
	sources := r.requests(ctx, keep, client.InNamespace(namespace), client.MatchingFields{index.SourceClaim: claim})
	return append(sources, r.requests(
		ctx, keep, client.MatchingFields{index.Destination: plan.LocalDestinationKey(namespace, claim)},
	)...)
}

// ofDelivery wakes the Transfer that a Delivery is of, and those that it is in the way of.
func (r *Reconciler) ofDelivery(ctx context.Context, object client.Object) []reconcile.Request {
	delivery, ok := object.(*v1alpha1.Delivery)
	if !ok {
		return nil
	}
	// Those that pull are among them.
	key := plan.LocalDestinationKey(delivery.Namespace, delivery.Spec.Destination.PersistentVolumeClaim.ClaimName)
	return r.requests(ctx, nil, client.MatchingFields{index.Destination: key})
}

// ofGrant wakes the Transfers of other namespaces of this cluster, and those made for other clusters, that a PeerGrant
// may be about.
func (r *Reconciler) ofGrant(ctx context.Context, grant client.Object) []reconcile.Request {
	return append(r.requests(ctx, nil, client.MatchingFields{index.GrantedBy: grant.GetNamespace()}),
		r.pulledBy(ctx, grant)...)
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(t *v1alpha1.Transfer) bool {
		return t.Spec.PodTemplate != nil && t.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
