// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
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
		Pods: &line.Pods[*v1alpha1.Delivery]{
			Label: v1alpha1.DeliveryLabel, Job: jobOf, Stray: stray,
			Abandoned: func(pod types.UID) bool { return r.Attempts.Abandoned(pod, r.Clock.Now()) },
		},
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

// jobOf is the Job of a Delivery that holds something.
func jobOf(delivery *v1alpha1.Delivery) string {
	if _, holds := quota.DeliveryHolds(delivery); holds {
		return delivery.Name
	}
	return ""
}

// stray is what a pod holds whose Delivery or Job is gone.
func stray(pod client.ObjectKey) quota.Held {
	return quota.Held{
		ID: pod.Name, Namespace: pod.Namespace, Amounts: quota.Amounts{quota.RunningDeliveries: 1},
	}
}
