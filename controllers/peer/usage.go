// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/usedby"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers;deliveries;queues,verbs=get;list;watch

// uses are by the objects that send to a Peer, and by those that receive from it.
func (r *Reconciler) uses(ctx context.Context, peer string) (sent, received []usedby.Use, err error) {
	transfers, queues, deliveries := &v1alpha1.TransferList{}, &v1alpha1.QueueList{}, &v1alpha1.DeliveryList{}
	if err := usedby.List(ctx, r.client, "", index.Peer, peer, transfers, queues, deliveries); err != nil {
		return nil, nil, err
	}
	for i := range transfers.Items {
		sent = append(sent, usedby.OfTransfer(&transfers.Items[i]))
	}
	for i := range queues.Items {
		use := usedby.OfQueue(&queues.Items[i])
		use.Usage.Wire = use.Usage.Channel // the others are with clients
		sent = append(sent, use)
	}
	for i := range deliveries.Items {
		received = append(received, usedby.OfDelivery(&deliveries.Items[i]))
	}
	return sent, received, nil
}
