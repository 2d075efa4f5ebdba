// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/route"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=peergrants,verbs=create;patch;delete

// reconcilePull looks after a Transfer that pulls: it asks the other cluster, and shows what that says.
func (r *Reconciler) reconcilePull(ctx context.Context, transfer *v1alpha1.Transfer) (ctrl.Result, error) {
	if transfer.Generation != transfer.Status.ObservedGeneration {
		r.exchanges.forget(transfer.UID) // the other cluster is told at once
	}
	facts, err := r.gatherPull(ctx, transfer)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := plan.DecidePull(transfer, facts)
	if err := r.writeStatus(ctx, transfer, plan.TransferDecision{Status: decision.Status}); err != nil {
		return ctrl.Result{}, err
	}
	if decision.Ask == nil {
		r.exchanges.forget(transfer.UID)
		r.holds.end(transfer.UID)
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, r.revokePull(ctx, transfer)
	}
	if err := r.grantOrEndPull(ctx, transfer, decision.Held); err != nil {
		return ctrl.Result{}, err
	}
	heard := plan.PullHeard{Problem: decision.Problem}
	if heard.Problem == nil {
		pause := plan.PullPause(transfer, facts.Pulling)
		end, wait := r.exchanges.begin(transfer.UID, facts.Peer.Name, min(pause, receiptPause))
		if wait > 0 {
			return ctrl.Result{RequeueAfter: sooner(decision.RequeueAfter, wait)}, nil
		}
		heard = r.askPull(ctx, facts.Peer, decision.Ask)
		defer func() { end(plan.PullPause(transfer, facts.Pulling) - time.Second) }()
	}
	if facts.Delivery, err = r.pullDelivery(ctx, transfer, heard.Answer); err != nil {
		return ctrl.Result{}, err
	}
	decision = plan.HearPull(transfer, facts, heard)
	if err := r.writeStatus(ctx, transfer, plan.TransferDecision{Status: decision.Status}); err != nil {
		return ctrl.Result{}, err
	}
	if transfer.Status.Run.CompletionTime != nil {
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, r.revokePull(ctx, transfer)
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// grantOrEndPull lets the other cluster send, unless it was told long enough ago that it must not for now.
func (r *Reconciler) grantOrEndPull(ctx context.Context, transfer *v1alpha1.Transfer, held bool) error {
	if !held {
		r.holds.end(transfer.UID)
		return r.grantPull(ctx, transfer)
	}
	if r.holds.since(transfer.UID, r.Clock.Now()) < holdPatience {
		return nil
	}
	if err := r.revokePull(ctx, transfer); err != nil {
		return err
	}
	all, err := r.pullDeliveries(ctx, transfer)
	if err != nil {
		return err
	}
	return r.dismiss(ctx, slices.DeleteFunc(all, func(d v1alpha1.Delivery) bool { return plan.DeliveryEnded(&d) }))
}

// pullDeliveries are all that the other cluster's Transfer has here.
func (r *Reconciler) pullDeliveries(ctx context.Context, transfer *v1alpha1.Transfer) ([]v1alpha1.Delivery, error) {
	found := &v1alpha1.DeliveryList{}
	err := r.Client.List(ctx, found, client.InNamespace(transfer.Namespace), client.MatchingFields{
		index.Sender: plan.SenderHash(transfer.Spec.Source.Peer, plan.PullNamespace(transfer), plan.PulledName(transfer)),
	})
	if err != nil {
		return nil, refusal.Elsewhere(fmt.Errorf("listing the Deliveries of a pull: %w", err))
	}
	return found.Items, nil
}

// gatherPull reads what a decision about a pull needs.
func (r *Reconciler) gatherPull(ctx context.Context, transfer *v1alpha1.Transfer) (plan.PullFacts, error) {
	facts := plan.PullFacts{Now: r.now(), NewRunID: newRunID()}
	peer, claim := &v1alpha1.Peer{}, &corev1.PersistentVolumeClaim{}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: transfer.Spec.Source.Peer}, peer)
	if err != nil {
		return facts, err
	}
	if found {
		facts.Peer = peer
	}
	found, err = lookup.Get(ctx, r.Client, client.ObjectKey{
		Namespace: transfer.Namespace, Name: transfer.Spec.Destination.PersistentVolumeClaim.ClaimName,
	}, claim)
	if err != nil {
		return facts, err
	}
	if found {
		facts.Claim = claim
	}
	others := plan.TransferFacts{}
	if err := r.gatherOthers(ctx, transfer, &others); err != nil {
		return facts, err
	}
	facts.Others = others.Others
	of, by := &v1alpha1.TransferList{}, client.MatchingFields{index.Peer: transfer.Spec.Source.Peer}
	err = r.Client.List(ctx, of, by, client.UnsafeDisableDeepCopy)
	if err != nil {
		return facts, fmt.Errorf("listing Transfers of Peer %s: %w", transfer.Spec.Source.Peer, err)
	}
	for i := range of.Items {
		if plan.Pulls(&of.Items[i]) {
			facts.Pulling++
		}
	}
	facts.Delivery, err = r.pullDelivery(ctx, transfer, nil)
	return facts, err
}

// pullDelivery is the Delivery of the attempt that an answer names, or without one the status; nil if there is none.
func (r *Reconciler) pullDelivery(
	ctx context.Context, transfer *v1alpha1.Transfer, answer *wirev1.PullResponse,
) (*v1alpha1.Delivery, error) {
	name := plan.PullDelivery(transfer, answer)
	if name == "" {
		return nil, nil
	}
	delivery, key := &v1alpha1.Delivery{}, client.ObjectKey{Namespace: transfer.Namespace, Name: name}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		found, err := lookup.Get(ctx, reader, key, delivery)
		if err != nil {
			return nil, err
		}
		if found {
			return delivery, nil
		}
		if answer == nil {
			break // nothing depends on it
		}
	}
	return nil, nil
}

// askPull asks the other cluster.
func (r *Reconciler) askPull(ctx context.Context, peer *v1alpha1.Peer, request *wirev1.PullRequest) plan.PullHeard {
	answer, err := r.Gateways.Pull(ctx, r.gatewayOf(peer), request)
	if err == nil {
		return plan.PullHeard{Answer: answer}
	}
	var refused *agentclient.RefusedError
	problem := &agentpod.Problem{Reason: v1alpha1.ReasonPeerUnreachable, Message: err.Error()}
	switch {
	case errors.As(err, &refused):
		problem.Reason = agentreport.FailureReason(refused.Reason)
		problem.Message = agentreport.Plain(refused.Message, 1024)
	case errors.Is(err, agentclient.ErrUntrusted):
		problem.Reason = v1alpha1.ReasonPeerUntrusted
	case errors.Is(err, agentclient.ErrIncompatible):
		problem.Reason = v1alpha1.ReasonPeerIncompatible
	}
	return plan.PullHeard{Problem: problem}
}

// grantPull lets the other cluster's Transfer write what this one asks for.
func (r *Reconciler) grantPull(ctx context.Context, transfer *v1alpha1.Transfer) error {
	wanted := plan.PullGrant(transfer)
	key, present := client.ObjectKeyFromObject(wanted), &v1alpha1.PeerGrant{}
	found, err := lookup.Get(ctx, r.Client, key, present)
	switch {
	case err != nil:
		return err
	case !found:
		err = r.Client.Create(ctx, wanted, client.FieldOwner(conditions.FieldOwner))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating PeerGrant %s of a pull: %w", key, err)
		}
		return nil
	case equality.Semantic.DeepEqual(present.Spec, wanted.Spec):
		return nil
	}
	after := present.DeepCopy()
	after.Spec = wanted.Spec
	if err := r.Client.Patch(ctx, after, client.MergeFrom(present), client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("changing PeerGrant %s of a pull: %w", key, err)
	}
	return nil
}

// revokePull removes that grant.
func (r *Reconciler) revokePull(ctx context.Context, transfer *v1alpha1.Transfer) error {
	grant := &v1alpha1.PeerGrant{}
	key := client.ObjectKeyFromObject(plan.PullGrant(transfer))
	found, err := lookup.Get(ctx, r.Client, key, grant)
	if err != nil || !found {
		return err
	}
	err = r.Client.Delete(ctx, grant, client.Preconditions{UID: &grant.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting PeerGrant %s of a pull: %w", key, err)
	}
	return nil
}

// deletePull ends a pull: nothing is accepted any more, the other cluster is told, and the Deliveries go. again is true
// when the other cluster is to be told once more.
func (r *Reconciler) deletePull(
	ctx context.Context, transfer *v1alpha1.Transfer, deleted time.Duration,
) (again bool, err error) {
	r.holds.end(transfer.UID)
	err = r.revokePull(ctx, transfer)
	if apierrors.IsForbidden(err) { // somebody took its owner away, and has it now
		r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotGranted, "Revoke",
			"PeerGrant %s is not the manager's to delete any more; delete it", plan.PulledName(transfer))
		err = nil
	}
	if err != nil || transfer.Status.Pull == nil {
		return false, err
	}
	facts := plan.PullFacts{Peer: &v1alpha1.Peer{}}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: transfer.Spec.Source.Peer}, facts.Peer)
	if err != nil {
		return false, err
	}
	if found && route.Reaches(facts.Peer) {
		err = r.Gateways.WithdrawPull(ctx, r.gatewayOf(facts.Peer), &wirev1.WithdrawRequest{
			Namespace: transfer.Namespace, Name: transfer.Name,
			Pull: &wirev1.PullName{Namespace: plan.PullNamespace(transfer), Uid: string(transfer.UID)},
		})
		if errors.Is(err, agentclient.ErrUnreachable) && deleted < withdrawPatience {
			return true, nil
		}
		if err != nil {
			r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, "NotWithdrawn", "Withdraw",
				"peer %q was not told of the deletion; it deletes Transfer %s in namespace %s within a day (%s)",
				facts.Peer.Name, plan.PulledName(transfer), plan.PullNamespace(transfer), conditions.Shorten(err.Error()))
		}
	}
	left, err := r.pullDeliveries(ctx, transfer)
	if err != nil {
		return false, err
	}
	return false, r.dismiss(ctx, left)
}
