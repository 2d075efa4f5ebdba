// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/usage"
)

const (
	podPause = time.Second
	// podPatience is how long a deletion waits for the agent's pod to end. The next attempt waits for it, so that two
	// agents never write into one place; a pod whose node is gone never ends, and has lost its sender.
	podPatience = 2 * time.Minute
)

// reconcileDelete ends the agent and lets the Delivery go.
func (r *Reconciler) reconcileDelete(ctx context.Context, delivery *v1alpha1.Delivery) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(delivery, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	r.tracker.Forget(delivery.UID)
	deleted := r.deletions.Since(delivery.UID, r.Clock.Now())
	if err := r.markDeleting(ctx, delivery); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Attempts.Retire(ctx, delivery, v1alpha1.DeliveryLabel, ""); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Attempts.RemoveSecret(ctx, delivery, delivery.Name); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.abandonHistory(ctx, delivery); err != nil {
		return ctrl.Result{}, err
	}
	left, err := r.Attempts.PodsLeft(ctx, delivery, v1alpha1.DeliveryLabel)
	if err != nil {
		return ctrl.Result{}, err
	}
	if left && deleted < podPatience {
		return ctrl.Result{RequeueAfter: podPause}, nil
	}
	if left {
		r.Recorder.Eventf(delivery, nil, corev1.EventTypeWarning, "AgentLost", "Delete",
			"the agent's pod has not ended within %s and is left behind; is its node alive?", podPatience)
	}
	if !r.Books.Settled(delivery) {
		return ctrl.Result{RequeueAfter: statement.SettlePause}, nil
	}
	return ctrl.Result{}, r.removeFinalizer(ctx, delivery)
}

// markDeleting takes the endpoint away first, so that the gateway lets nobody through any more.
func (r *Reconciler) markDeleting(ctx context.Context, delivery *v1alpha1.Delivery) error {
	before := delivery.DeepCopy()
	delivery.Status.Endpoint, delivery.Status.ServerName = "", ""
	delivery.Status.ObservedGeneration = delivery.Generation
	wanted := conditions.Reconciling(v1alpha1.ReasonDeleting, "the agent is being ended")
	delivery.Status.Conditions = conditions.Merge(
		delivery.Status.Conditions, wanted, delivery.Generation, r.Clock.Now().Truncate(time.Second),
	)
	_, err := conditions.WriteStatus(ctx, r.Client, before, delivery)
	return err
}

func (r *Reconciler) removeFinalizer(ctx context.Context, delivery *v1alpha1.Delivery) error {
	before := delivery.DeepCopy()
	controllerutil.RemoveFinalizer(delivery, v1alpha1.Finalizer)
	err := r.Client.Patch(ctx, delivery, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(conditions.FieldOwner))
	if err == nil && !plan.DeliveryEnded(delivery) {
		r.auditDeleted(ctx, delivery)
		r.Metrics.Observe(delivery.Namespace, audit.ResultWithdrawn, usage.FromStatus(delivery.Status.Usage).Report())
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Delivery %s: %w", client.ObjectKeyFromObject(delivery), err)
	}
	return nil
}
