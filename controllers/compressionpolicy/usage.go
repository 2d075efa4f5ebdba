// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compressionpolicy

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/usedby"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers;queues;httpendpoints,verbs=get;list;watch

// uses are by the objects that a policy applies to; namespace is empty for those of all. What its canary took is
// added to m, unless that is nil.
func uses(ctx context.Context, c client.Client, namespace, policy string, m *canary.Meter) ([]usedby.Use, error) {
	transfers, queues, endpoints := &v1alpha1.TransferList{}, &v1alpha1.QueueList{}, &v1alpha1.HTTPEndpointList{}
	if err := usedby.List(
		ctx, c, namespace, index.PolicyInForce, index.InForce(namespace != "", policy), transfers, queues, endpoints,
	); err != nil {
		return nil, err
	}
	var uses []usedby.Use
	for i := range transfers.Items {
		uses = append(uses, usedby.OfTransfer(&transfers.Items[i]))
		m.Transfer(&transfers.Items[i])
	}
	for i := range queues.Items {
		uses = append(uses, usedby.OfQueue(&queues.Items[i]))
		m.Queue(&queues.Items[i])
	}
	for i := range endpoints.Items {
		uses = append(uses, usedby.OfEndpoint(&endpoints.Items[i]))
		m.Endpoint(&endpoints.Items[i])
	}
	return uses, nil
}
