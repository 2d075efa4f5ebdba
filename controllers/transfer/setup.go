// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	"github.com/lighterage/lighterage/controllers/topology"
)

// Indexes of Transfers in the cache.
const (
	destinationIndex = "lighterage.destination"
	peerIndex        = "spec.destination.peer"
	claimIndex       = "spec.source.persistentVolumeClaim.claimName"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	for name, value := range map[string]func(*v1alpha1.Transfer) string{
		destinationIndex: plan.DestinationKey,
		peerIndex:        func(t *v1alpha1.Transfer) string { return t.Spec.Destination.Peer },
		claimIndex:       func(t *v1alpha1.Transfer) string { return t.Spec.Source.PersistentVolumeClaim.ClaimName },
	} {
		index := func(object client.Object) []string {
			transfer, ok := object.(*v1alpha1.Transfer)
			if !ok {
				return nil
			}
			return []string{value(transfer)}
		}
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Transfer{}, name, index); err != nil {
			return fmt.Errorf("indexing Transfers by %s: %w", name, err)
		}
	}
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
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
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Transfer{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofNext), builder.WithPredicates(attempt.PodEnded(v1alpha1.TransferLabel))).
		Watches(&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(r.ofNext), builder.WithPredicates(freed())).
		Watches(&v1alpha1.Transfer{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(queued())).
		Watches(&v1alpha1.DataQuota{}, handler.EnqueueRequestsFromMapFunc(r.ofQuota), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(r.ofRival), builder.WithPredicates(left)).
		Watches(&v1alpha1.Delivery{}, handler.EnqueueRequestsFromMapFunc(r.ofDelivery)).
		Watches(&v1alpha1.PeerGrant{}, handler.EnqueueRequestsFromMapFunc(r.ofGrant), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer)).
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.ofPolicy),
			builder.WithPredicates(specOrAnnotations)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(topology.NodeChanged())).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(topology.Detached())).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Concurrency)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the Transfer controller: %w", err)
	}
	return nil
}

// requests lists Transfers; an error is logged, as there is nobody to return it to, and the clock looks again later.
func (r *Reconciler) requests(ctx context.Context, keep func(*v1alpha1.Transfer) bool, options ...client.ListOption) []reconcile.Request {
	transfers := &v1alpha1.TransferList{}
	if err := r.Client.List(ctx, transfers, options...); err != nil {
		log.FromContext(ctx).Error(err, "Transfers cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range transfers.Items {
		if keep == nil || keep(&transfers.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&transfers.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	uid := types.UID(pod.GetLabels()[v1alpha1.TransferLabel])
	if uid == "" {
		return nil
	}
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool { return t.UID == uid }, client.InNamespace(pod.GetNamespace()))
}

func (r *Reconciler) ofRival(ctx context.Context, object client.Object) []reconcile.Request {
	rival, ok := object.(*v1alpha1.Transfer)
	if !ok {
		return nil
	}
	return r.requests(ctx, nil, client.MatchingFields{destinationIndex: plan.DestinationKey(rival)})
}

func (r *Reconciler) ofPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	return r.requests(ctx, nil, client.MatchingFields{peerIndex: peer.GetName()})
}

func (r *Reconciler) ofPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool { return t.Status.Phase != v1alpha1.TransferComplete })
}

// ofNode wakes those whose agent has no node yet.
func (r *Reconciler) ofNode(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool {
		switch t.Status.Phase {
		case v1alpha1.TransferPending, v1alpha1.TransferStarting, v1alpha1.TransferRetrying:
			return plan.NeedsPlacement(t.Status.Run, t.Status.Placement)
		}
		return false
	})
}

func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	sources := r.requests(ctx, nil, client.InNamespace(claim.GetNamespace()), client.MatchingFields{claimIndex: claim.GetName()})
	return append(sources, r.into(ctx, claim.GetNamespace(), claim.GetName())...)
}

// into finds the Transfers within this cluster into a claim.
func (r *Reconciler) into(ctx context.Context, namespace, claim string) []reconcile.Request {
	return r.requests(ctx, nil, client.MatchingFields{destinationIndex: plan.LocalDestinationKey(namespace, claim)})
}

// ofDelivery wakes the Transfer that a Delivery is of, and those that it is in the way of.
func (r *Reconciler) ofDelivery(ctx context.Context, object client.Object) []reconcile.Request {
	delivery, ok := object.(*v1alpha1.Delivery)
	if !ok {
		return nil
	}
	return r.into(ctx, delivery.Namespace, delivery.Spec.Destination.PersistentVolumeClaim.ClaimName)
}

// ofGrant wakes the Transfers of other namespaces of this cluster that a PeerGrant may be about.
func (r *Reconciler) ofGrant(ctx context.Context, grant client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool {
		return t.Namespace != grant.GetNamespace() && plan.DestinationNamespace(t) == grant.GetNamespace()
	}, client.MatchingFields{peerIndex: ""})
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	privileged := func(t *v1alpha1.Transfer) bool {
		return t.Spec.PodTemplate != nil && t.Spec.PodTemplate.SecurityContext != nil
	}
	return r.requests(ctx, privileged, client.InNamespace(namespace.GetName()))
}
