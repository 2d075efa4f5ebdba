// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// gatherHistory looks at the snapshots of the claim, and how many of them a PeerGrant allows.
func (r *Reconciler) gatherHistory(
	ctx context.Context, delivery *v1alpha1.Delivery, facts *plan.DeliveryFacts,
) error {
	if !plan.DeliveryNeedsHistory(delivery) {
		return nil
	}
	var err error
	facts.History, err = r.staging.LookAtHistory(ctx, plan.DeliveryHistory(delivery))
	if err != nil || !plan.DeliveryTakes(delivery) {
		return err
	}
	verdict, err := r.judge(ctx, delivery, facts.Now)
	facts.History.Limit, facts.History.Refusal = verdict.Snapshots, verdict.Refusal
	return err
}

// keepHistory makes and removes snapshots of the claim.
func (r *Reconciler) keepHistory(
	ctx context.Context, delivery *v1alpha1.Delivery, step *plan.HistoryStep, now time.Time,
) error {
	if step == nil {
		return nil
	}
	problem, err := r.staging.KeepHistory(ctx, plan.DeliveryHistory(delivery), step)
	if err != nil || problem == nil {
		return err
	}
	before := delivery.DeepCopy()
	delivery.Status = plan.RefuseDeliveryHistory(delivery, *problem, now)
	_, err = conditions.WriteStatus(ctx, r.Client, before, delivery)
	return err
}

// abandonHistory removes the snapshot of a Delivery that is being deleted, if it is not taken yet, and what was to be
// removed anyway. Without the right to
// there is none that this manager has made.
func (r *Reconciler) abandonHistory(ctx context.Context, delivery *v1alpha1.Delivery) error {
	if !plan.DeliveryAbandons(delivery) {
		return nil
	}
	of := plan.DeliveryHistory(delivery)
	facts, err := r.staging.LookAtHistory(ctx, of)
	if err != nil {
		return err
	}
	step := plan.AbandonHistory(delivery, facts)
	if step == nil {
		return nil
	}
	if _, err := r.staging.KeepHistory(ctx, of, step); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}
