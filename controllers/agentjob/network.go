// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
)

// ensureNetwork writes the NetworkPolicy of an owner's attempts, which goes with the owner. It is there before the pod
// that it is for.
func (c *Cluster) ensureNetwork(
	ctx context.Context, owner client.Object, a *attempt.Attempt,
) (*agentpod.Problem, error) {
	kind, label := "Transfer", v1alpha1.TransferLabel
	switch owner.(type) {
	case *v1alpha1.Delivery:
		kind, label = "Delivery", v1alpha1.DeliveryLabel
	case *v1alpha1.CompressionTrial:
		kind, label = "CompressionTrial", v1alpha1.TrialLabel
	case *v1alpha1.ObjectStore:
		kind, label = "ObjectStore", v1alpha1.ObjectStoreLabel
	}
	labels := map[string]string{label: string(owner.GetUID()), agentpod.ComponentLabel: a.Mode()}
	policy := func(operatorNamespace string) networkingv1.NetworkPolicySpec {
		return networkpolicy.Attempt(operatorNamespace, label, owner.GetUID(), a.Traffic())
	}
	problem, err := c.options.Networks.Ensure(ctx, kind, owner, labels, policy)
	if problem != nil {
		problem.Reason = v1alpha1.ReasonAgentNotStarted
	}
	return problem, err
}
