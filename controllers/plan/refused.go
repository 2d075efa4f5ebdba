// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// RefuseTransfer is the decision when what DecideTransfer wanted started was refused. The attempt has not begun and
// costs nothing; it is tried again, each time after as long as it has been refused so far, up to attempt.StallLast.
func RefuseTransfer(transfer *v1alpha1.Transfer, problem agentpod.Problem, now time.Time) TransferDecision {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	d.out.RequeueAfter = attempt.RefusedDelay(transfer.Status.Conditions, now)
	d.set(v1alpha1.TransferStarting, conditions.Stalled(problem.Reason, problem.Message))
	d.out.Status = d.transfer.Status
	return d.out
}

// RefuseDelivery is the decision when what DecideDelivery wanted started was refused. It ends the Delivery, so that the
// gateway tells the sender, whose next attempt gets a new one. What the API server says may name quotas, policies and
// other objects of this cluster, so it is the event's detail and not in the conditions, which the gateway passes on.
func RefuseDelivery(
	delivery *v1alpha1.Delivery, problem agentpod.Problem, now time.Time, retention time.Duration,
) DeliveryDecision {
	d := &deliveryDecision{delivery: delivery.DeepCopy(), facts: DeliveryFacts{Now: now, Retention: retention}}
	completed := metav1.NewTime(now)
	d.delivery.Status.Run.CompletionTime = &completed
	message := problem.Message
	switch problem.Reason {
	case v1alpha1.ReasonAgentNotStarted:
		d.out.Detail = problem.Message
		message = "the receiving cluster cannot create the agent's Job; the event of the Delivery there says why"
	case v1alpha1.ReasonDestinationNotCreated:
		d.out.Detail = problem.Message
		message = "the receiving cluster cannot create the claim; the event of the Delivery there says why"
	}
	d.fail(problem.Reason, message)
	d.out.Status = d.delivery.Status
	return d.out
}
