// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// gatherTemplate looks at the claims of a Transfer with a template.
func (r *Reconciler) gatherTemplate(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.NeedsTemplate(transfer) {
		return nil
	}
	var err error
	if transfer.Spec.Source.ObjectStore == nil {
		source := transfer.Spec.Source.PersistentVolumeClaim.ClaimName
		if facts.Template.Source, err = r.claims.Claim(ctx, transfer.Namespace, source); err != nil {
			return err
		}
	}
	if !plan.IsLocal(transfer) {
		return nil
	}
	destination := transfer.Spec.Destination.PersistentVolumeClaim.ClaimName
	facts.Template.Destination, err = r.claims.Claim(ctx, plan.DestinationNamespace(transfer), destination)
	facts.Local.Claim = facts.Template.Destination
	return err
}

// provide creates the claim of the destination, or enlarges it. The problem is what the API server has against creating
// it; that it cannot be larger keeps nothing from starting.
func (r *Reconciler) provide(
	ctx context.Context, transfer *v1alpha1.Transfer, decision plan.TransferDecision,
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
	decision.Finished = nil // it is counted already
	decision.Status.Conditions = conditions.Merge(decision.Status.Conditions,
		[]metav1.Condition{plan.Enlarged(decision.Provision, words)}, transfer.Generation, r.now())
	return nil, r.writeStatus(ctx, transfer, decision)
}
