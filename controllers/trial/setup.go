// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CompressionTrial{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		Watches(&v1alpha1.HTTPEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.ofHTTPEndpoint), builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.ofQueue), builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.waiting), builder.WithPredicates(specOrAnnotations)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.waiting), builder.WithPredicates(topology.NodeChanged())).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.waiting), builder.WithPredicates(topology.Detached())).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Concurrency)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the CompressionTrial controller: %w", err)
	}
	return nil
}

// requests lists CompressionTrials; an error is logged, as there is nobody to return it to, and the clock looks again later.
func (r *Reconciler) requests(ctx context.Context, keep func(*v1alpha1.CompressionTrial) bool, options ...client.ListOption) []reconcile.Request {
	trials := &v1alpha1.CompressionTrialList{}
	if err := r.Client.List(ctx, trials, options...); err != nil {
		log.FromContext(ctx).Error(err, "CompressionTrials cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range trials.Items {
		if keep(&trials.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&trials.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.HTTPEndpointLabel] != "" || labels[v1alpha1.QueueLabel] != "" {
		// A trial may wait for a replica or a member to be ready.
		return r.requests(ctx, func(t *v1alpha1.CompressionTrial) bool { return claimName(t) == "" && beforeItsAgent(t) }, client.InNamespace(pod.GetNamespace()))
	}
	uid := types.UID(labels[v1alpha1.TrialLabel])
	if uid == "" {
		return nil
	}
	return r.requests(ctx, func(t *v1alpha1.CompressionTrial) bool { return t.UID == uid }, client.InNamespace(pod.GetNamespace()))
}

func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.CompressionTrial) bool {
		return claimName(t) == claim.GetName() && beforeItsAgent(t)
	}, client.InNamespace(claim.GetNamespace()))
}

func (r *Reconciler) ofHTTPEndpoint(ctx context.Context, endpoint client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.CompressionTrial) bool {
		source := t.Spec.Source.HTTPEndpoint
		return source != nil && source.Name == endpoint.GetName() && beforeItsAgent(t)
	}, client.InNamespace(endpoint.GetNamespace()))
}

func (r *Reconciler) ofQueue(ctx context.Context, queue client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.CompressionTrial) bool {
		source := t.Spec.Source.Queue
		return source != nil && source.Name == queue.GetName() && beforeItsAgent(t)
	}, client.InNamespace(queue.GetNamespace()))
}

func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, beforeItsAgent, client.InNamespace(namespace.GetName()))
}

// waiting wakes those whose agent has no node yet.
func (r *Reconciler) waiting(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, beforeItsAgent)
}

// beforeItsAgent: what the trial waits for may be mended by what has changed.
func beforeItsAgent(t *v1alpha1.CompressionTrial) bool {
	switch t.Status.Phase {
	case v1alpha1.TrialComplete, v1alpha1.TrialFailed, v1alpha1.TrialMeasuring:
		return false
	}
	return plan.NeedsPlacement(t.Status.Run, t.Status.Placement)
}
