// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch

// newLine is that of Deliveries.
func (r *Reconciler) newLine() *line.Line[*v1alpha1.Delivery] {
	return &line.Line[*v1alpha1.Delivery]{
		Client: r.Client, Reader: r.Reader, List: deliveries, Holds: quota.DeliveryHolds, Waits: quota.DeliveryWaits,
		View: r.view,
	}
}

// decide has package plan decide, and the namespace's quotas admit what it wants started. written is to be called as
// line.Line says when the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, delivery *v1alpha1.Delivery, facts plan.DeliveryFacts,
) (decision plan.DeliveryDecision, written func(error), err error) {
	decision, written = plan.DecideDelivery(delivery, facts, r.Image), func(error) {}
	if decision.Ask == nil {
		return decision, written, nil
	}
	answer, written, err := r.line.Admit(ctx, delivery, *decision.Ask, facts.Quota.Quotas)
	if err != nil {
		return decision, written, err
	}
	facts.Quota.Answer = &answer
	return plan.DecideDelivery(delivery, facts, r.Image), written, nil
}

// view is what a namespace's Deliveries hold and wait for. Pods whose Delivery or Job is gone hold something too, as
// long as they run.
func (r *Reconciler) view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
	options ...client.ListOption,
) (quota.View, error) {
	deliveries := &v1alpha1.DeliveryList{}
	options = append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err := reader.List(ctx, deliveries, options...); err != nil {
		return quota.View{}, fmt.Errorf("listing Deliveries in %s: %w", namespace, err)
	}
	view := quota.Deliveries(quotas, deliveries.Items)
	present := map[client.ObjectKey]bool{}
	for i := range deliveries.Items {
		if _, holds := quota.DeliveryHolds(&deliveries.Items[i]); holds {
			present[client.ObjectKeyFromObject(&deliveries.Items[i])] = true
		}
	}
	strays, err := r.Attempts.Strays(ctx, namespace, v1alpha1.DeliveryLabel, present, r.Clock.Now())
	for _, pod := range strays {
		view.Held = append(view.Held, quota.Held{
			ID: pod.Name, Namespace: pod.Namespace, Amounts: quota.Amounts{quota.RunningDeliveries: 1},
		})
	}
	return view, err
}
