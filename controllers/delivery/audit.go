// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/peergrant"
)

// auditEnd writes that a Delivery has used a grant and ended, for the reason that its conditions give. It is called
// once, after the write that ended it: the API server takes that write from one who has seen everything before it.
func (r *Reconciler) auditEnd(delivery *v1alpha1.Delivery) {
	r.audit(delivery, resultOf(delivery))
}

// resultOf is why a Delivery has ended.
func resultOf(delivery *v1alpha1.Delivery) string {
	if ready := meta.FindStatusCondition(delivery.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return v1alpha1.ReasonInternal
}

// auditDeleted is auditEnd for a Delivery that was deleted before it had ended.
func (r *Reconciler) auditDeleted(ctx context.Context, delivery *v1alpha1.Delivery) {
	result := audit.ResultWithdrawn
	verdict, err := peergrant.Judge(ctx, r.Client, delivery, r.Clock.Now())
	switch {
	case err != nil:
		log.FromContext(ctx).V(1).Info("Whether the Delivery is granted cannot be looked up", "reason", err.Error())
	case !verdict.Allowed:
		result = v1alpha1.ReasonNotGranted
	}
	r.audit(delivery, result)
}

func (r *Reconciler) audit(delivery *v1alpha1.Delivery, result string) {
	request, status := peergrant.OfDelivery(delivery), delivery.Status
	if request.Peer == "" && request.Namespace == request.ToNamespace { // takes no grant
		return
	}
	use := audit.Use{
		Peer: request.Peer, Namespace: request.Namespace,
		ToNamespace: request.ToNamespace, Kind: request.Kind, Name: request.Name, Path: request.Path,
		Transfer: delivery.Spec.Transfer.Name, Run: delivery.Spec.Transfer.Run, Attempt: delivery.Spec.Transfer.Attempt,
		Delete: request.Delete, Privileged: request.Privileged, Result: result,
	}
	if status.Progress != nil {
		use.Bytes = status.Progress.Bytes
	}
	if status.Run != nil && status.Run.StartTime != nil {
		use.Duration = max(0, r.Clock.Now().Sub(status.Run.StartTime.Time))
	}
	r.Uses.Record(use)
}
