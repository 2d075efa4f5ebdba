// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	later := builder.WithPredicates(wake.Later())
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CompressionTrial{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), later).
		Watches(
			&v1alpha1.HTTPEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.ofHTTPEndpoint), wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.ofQueue), wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.ofPolicy), wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.LocalCompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.ofPolicy), wake.LaterIf(specOrAnnotations),
		).
		Watches(
			&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.ofPolicy), wake.LaterIf(specOrAnnotations),
		).
		WatchesRawSource(o.Topology.Waiting(func(ctx context.Context) []reconcile.Request { return r.waiting(ctx, nil) })).
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
		return fmt.Errorf("registering the CompressionTrial controller: %w", err)
	}
	return nil
}

func trials() client.ObjectList { return &v1alpha1.CompressionTrialList{} }

// waiting are those whose agent has no node yet, and that something about them may help.
func (r *Reconciler) waiting(
	ctx context.Context, keep func(*v1alpha1.CompressionTrial) bool, options ...client.ListOption,
) []reconcile.Request {
	return wake.Requests(ctx, r.Client, trials(), keep, append(options, client.MatchingFields{index.Waits: index.Yes})...)
}

func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.HTTPEndpointLabel] != "" || labels[v1alpha1.QueueLabel] != "" {
		// A trial may wait for a replica or a member to be ready.
		return r.waiting(ctx, func(t *v1alpha1.CompressionTrial) bool {
			return claimName(t) == ""
		}, client.InNamespace(pod.GetNamespace()))
	}
	return wake.Labelled(r.Client, trials, v1alpha1.TrialLabel)(ctx, pod)
}

func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.sampling(ctx, client.ObjectKeyFromObject(claim))
}

func (r *Reconciler) sampling(ctx context.Context, claim client.ObjectKey) []reconcile.Request {
	return r.waiting(ctx, func(t *v1alpha1.CompressionTrial) bool {
		return claimName(t) == claim.Name
	}, client.InNamespace(claim.Namespace))
}

// ofVolume wakes those that sample the volume of an attachment.
func (r *Reconciler) ofVolume(ctx context.Context, attachment client.Object) []reconcile.Request {
	claim, ok, err := r.Topology.ClaimOf(ctx, attachment)
	if err != nil {
		log.FromContext(ctx).Error(err, "The claim of a VolumeAttachment cannot be found")
	}
	if !ok {
		return nil
	}
	return r.sampling(ctx, claim)
}

func (r *Reconciler) ofHTTPEndpoint(ctx context.Context, endpoint client.Object) []reconcile.Request {
	return r.waiting(ctx, func(t *v1alpha1.CompressionTrial) bool {
		source := t.Spec.Source.HTTPEndpoint
		return source != nil && source.Name == endpoint.GetName()
	}, client.InNamespace(endpoint.GetNamespace()))
}

func (r *Reconciler) ofQueue(ctx context.Context, queue client.Object) []reconcile.Request {
	return r.waiting(ctx, func(t *v1alpha1.CompressionTrial) bool {
		source := t.Spec.Source.Queue
		return source != nil && source.Name == queue.GetName()
	}, client.InNamespace(queue.GetNamespace()))
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.waiting(ctx, nil, client.InNamespace(namespace.GetName()))
}

// ofPolicy wakes those of all namespaces, and of a LocalCompressionPolicy those of its own.
func (r *Reconciler) ofPolicy(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.waiting(ctx, nil, client.InNamespace(policy.GetNamespace()))
}
