// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

// gatherTemplate looks at the claim of a Delivery with a template, and whether it may be created or enlarged. A grant
// that the cache has not seen yet counts.
func (r *Reconciler) gatherTemplate(
	ctx context.Context, delivery *v1alpha1.Delivery, facts *plan.DeliveryFacts,
) error {
	if !plan.DeliveryNeedsTemplate(delivery) {
		return nil
	}
	var err error
	name := delivery.Spec.Destination.PersistentVolumeClaim.ClaimName
	facts.Claim, err = r.claims.Claim(ctx, delivery.Namespace, name)
	if err != nil || plan.ClaimSuffices(delivery, facts.Claim) {
		return err
	}
	verdict, err := peergrant.JudgeClaim(ctx, r.Client, delivery, facts.Now)
	if err == nil && !verdict.Allowed {
		verdict, err = peergrant.JudgeClaim(ctx, r.Reader, delivery, facts.Now)
	}
	facts.ClaimRefusal = verdict.Refusal
	return err
}

// provide creates the claim of a Delivery, or enlarges it. The problem is what the API server has against creating it;
// that it cannot be larger keeps nothing from starting.
func (r *Reconciler) provide(
	ctx context.Context, delivery *v1alpha1.Delivery, facts plan.DeliveryFacts, decision plan.DeliveryDecision,
) (*agentpod.Problem, error) {
	if claim := decision.Provision.Create; claim != nil {
		words, err := r.claims.Create(ctx, claim)
		if err != nil || words == "" {
			return nil, err
		}
		return plan.NotCreated(claim, words), nil
	}
	words, err := r.claims.Enlarge(ctx, decision.Provision.Enlarge, decision.Provision.Size)
	if err != nil {
		return nil, err
	}
	decision.Status.Conditions = conditions.Merge(decision.Status.Conditions,
		[]metav1.Condition{plan.Enlarged(decision.Provision, words)}, delivery.Generation, facts.Now)
	return nil, r.writeStatus(ctx, delivery, decision)
}
