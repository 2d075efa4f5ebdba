// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch

// gatherQuotas looks at what limits the namespace.
func (r *Reconciler) gatherQuotas(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	var err error
	facts.Quota.Quotas, err = lookup.DataQuotas(ctx, r.Client, transfer.Namespace)
	return err
}

// newLine is that of Transfers.
func (r *Reconciler) newLine() *line.Line[*v1alpha1.Transfer] {
	return &line.Line[*v1alpha1.Transfer]{
		Client: r.Client, Reader: r.Reader, List: transfers, Holds: quota.TransferHolds, Waits: quota.TransferWaits,
		View: r.view,
	}
}

// decide has package plan decide, and the namespace's quotas admit what it wants started. written is to be called when
// the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts,
) (decision plan.TransferDecision, written func(), err error) {
	decision, written = plan.DecideTransfer(transfer, facts, r.Image), func() {}
	if decision.Ask == nil {
		return decision, written, nil
	}
	answer, written, err := r.line.Admit(ctx, transfer.Namespace, *decision.Ask, facts.Quota.Quotas)
	if err != nil {
		return decision, written, err
	}
	facts.Quota.Answer = &answer
	return plan.DecideTransfer(transfer, facts, r.Image), written, nil
}

// view is what a namespace's Transfers hold and wait for. Pods of attempts that are over hold something too, as long as
// they run: whoever removes a Job or a Transfer from under its pod gains nothing.
func (r *Reconciler) view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
) (quota.View, error) {
	transfers := &v1alpha1.TransferList{}
	if err := reader.List(ctx, transfers, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return quota.View{}, fmt.Errorf("listing Transfers in %s: %w", namespace, err)
	}
	view := quota.Transfers(quotas, transfers.Items)
	present := map[string]bool{}
	for i := range transfers.Items {
		_, holds := quota.TransferHolds(&transfers.Items[i])
		if holds || plan.HasLegs(&transfers.Items[i]) { // whose legs hold
			present[attemptName(&transfers.Items[i])] = true
		}
	}
	strays, err := r.Attempts.Strays(ctx, namespace, v1alpha1.TransferLabel, present, r.Clock.Now())
	for _, pod := range strays {
		view.Held = append(view.Held, quota.Held{ID: pod, Amounts: quota.Amounts{quota.RunningTransfers: 1}})
	}
	return view, err
}
