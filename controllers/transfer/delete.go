// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/route"
	"github.com/lighterage/lighterage/controllers/statement"
)

const (
	// podPatience is how long a deletion waits for the agent's pod to end: it has 10 seconds to, but its node may be
	// gone.
	podPatience = 30 * time.Second
	podPause    = time.Second
	// withdrawPatience is how long a deletion tries to reach the peer.
	withdrawPatience = 2 * time.Minute
	withdrawPause    = 5 * time.Second
)

// reconcileDelete ends the agent, tells the peer, and lets the Transfer go.
func (r *Reconciler) reconcileDelete(ctx context.Context, transfer *v1alpha1.Transfer) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(transfer, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	r.tracker.Forget(transfer.UID)
	deleted := r.deletions.Since(transfer.UID, r.Clock.Now())
	if err := r.markDeleting(ctx, transfer); err != nil {
		return ctrl.Result{}, err
	}
	if plan.Pulls(transfer) {
		again, err := r.deletePull(ctx, transfer, deleted)
		if err != nil || again {
			return ctrl.Result{RequeueAfter: withdrawPause}, err
		}
		return ctrl.Result{}, r.removeFinalizer(ctx, transfer)
	}
	waiting, err := r.endAgent(ctx, transfer, deleted)
	if err != nil || waiting {
		return ctrl.Result{RequeueAfter: podPause}, err
	}
	var legs bool
	if plan.HasLegs(transfer) {
		// They end while the application is released, which waits for none of them: what they read is a copy.
		if legs, err = r.endLegs(ctx, transfer); err != nil {
			return ctrl.Result{}, err
		}
	}
	if told := plan.ReleaseTrigger(transfer); told != nil {
		if _, err := r.tellOfCopy(ctx, transfer, told); err != nil {
			return ctrl.Result{}, err
		}
	}
	if waiting, err = r.endHooks(ctx, transfer, deleted); err != nil || waiting {
		return ctrl.Result{RequeueAfter: hookPause}, err
	}
	if legs {
		return ctrl.Result{RequeueAfter: podPause}, nil
	}
	if plan.Stages(transfer) || transfer.Status.Staged != nil {
		// Without the right to delete copies the garbage collector does: the Transfer owns them.
		if err := r.staging.Remove(ctx, transfer, ""); err != nil && !apierrors.IsForbidden(err) {
			return ctrl.Result{}, err
		}
	}
	again, err := r.withdraw(ctx, transfer, deleted)
	if err != nil || again {
		return ctrl.Result{RequeueAfter: withdrawPause}, err
	}
	if !r.Books.Settled(transfer) {
		return ctrl.Result{RequeueAfter: statement.SettlePause}, nil
	}
	return ctrl.Result{}, r.removeFinalizer(ctx, transfer)
}

func (r *Reconciler) markDeleting(ctx context.Context, transfer *v1alpha1.Transfer) error {
	before := transfer.DeepCopy()
	transfer.Status.ObservedGeneration = transfer.Generation
	wanted := conditions.Reconciling(v1alpha1.ReasonDeleting, "the agent is being ended and the peer told")
	transfer.Status.Conditions = conditions.Merge(transfer.Status.Conditions, wanted, transfer.Generation, r.now())
	_, err := conditions.WriteStatus(ctx, r.Client, before, transfer)
	return err
}

// endAgent removes Jobs and Secrets; waiting is true while a pod may still open a run at the peer.
func (r *Reconciler) endAgent(
	ctx context.Context, transfer *v1alpha1.Transfer, deleted time.Duration,
) (waiting bool, err error) {
	if err := r.Attempts.Retire(ctx, transfer, v1alpha1.TransferLabel, ""); err != nil {
		return false, err
	}
	if name := attemptName(transfer); name != "" {
		if err := r.Attempts.RemoveSecret(ctx, transfer, name); err != nil {
			return false, err
		}
	}
	if deleted > podPatience {
		return false, nil
	}
	return r.Attempts.PodsLeft(ctx, transfer, v1alpha1.TransferLabel)
}

// withdraw tells the peer; again is true when it is to be tried once more. A Transfer that never ran is not known
// there.
func (r *Reconciler) withdraw(
	ctx context.Context, transfer *v1alpha1.Transfer, deleted time.Duration,
) (again bool, err error) {
	if plan.HasLegs(transfer) {
		return false, nil // each leg has told
	}
	if plan.IsLocal(transfer) {
		return false, r.dismissAll(ctx, transfer)
	}
	facts := plan.TransferFacts{}
	if err := r.gatherPeer(ctx, transfer, &facts); err != nil {
		return false, err
	}
	if transfer.Status.Run == nil || facts.Peer == nil || !route.Reaches(facts.Peer) {
		return false, nil
	}
	err = r.Gateways.Withdraw(ctx, r.gatewayOf(facts.Peer), transfer.Namespace, transfer.Name)
	if err == nil {
		return false, nil
	}
	if errors.Is(err, agentclient.ErrUnreachable) && deleted < withdrawPatience {
		return true, nil
	}
	r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, "NotWithdrawn", "Withdraw",
		"peer %q was not told of the deletion; delete what it may have left there: kubectl -n %s get deliveries (%s)",
		facts.Peer.Name, plan.DestinationNamespace(transfer), conditions.Shorten(err.Error()))
	return false, nil
}

// gatewayOf is the gateway of a Peer that this cluster reaches.
func (r *Reconciler) gatewayOf(peer *v1alpha1.Peer) agentclient.Gateway {
	to, _ := route.To(peer, r.Image.Tunnels)
	return agentclient.Gateway{Endpoint: to.Endpoint, Tunnel: to.Tunnel, CABundle: peer.Spec.CABundle}
}

func (r *Reconciler) removeFinalizer(ctx context.Context, transfer *v1alpha1.Transfer) error {
	before := transfer.DeepCopy()
	controllerutil.RemoveFinalizer(transfer, v1alpha1.Finalizer)
	err := r.Client.Patch(ctx, transfer, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(conditions.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Transfer %s: %w", client.ObjectKeyFromObject(transfer), err)
	}
	return nil
}
