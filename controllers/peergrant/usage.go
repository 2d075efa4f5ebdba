// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/usedby"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries;queues;transfers,verbs=get;list;watch

// uses are by the objects of a grant's namespace that receive by it, or are pulled. Objects of others are not looked
// at.
func (r *Reconciler) uses(ctx context.Context, grant *v1alpha1.PeerGrant) ([]usedby.Use, error) {
	deliveries, queues := &v1alpha1.DeliveryList{}, &v1alpha1.QueueList{}
	for _, list := range []client.ObjectList{deliveries, queues} {
		err := r.client.List(ctx, list, client.InNamespace(grant.Namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing %T in %s: %w", list, grant.Namespace, err)
		}
	}
	pulled := &v1alpha1.TransferList{}
	err := r.client.List(ctx, pulled, client.InNamespace(grant.Namespace), client.HasLabels{v1alpha1.PulledByLabel},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Transfers in %s that are pulled: %w", grant.Namespace, err)
	}
	var uses []usedby.Use
	for i := range pulled.Items {
		t := &pulled.Items[i]
		if of, is := plan.PulledFor(t); is && allows(grant, OfPull(t, of)) {
			uses = append(uses, usedby.OfTransfer(t))
		}
	}
	for i := range deliveries.Items {
		if d := &deliveries.Items[i]; allows(grant, OfDelivery(d)) {
			uses = append(uses, usedby.OfDelivery(d))
		}
	}
	for i := range queues.Items {
		if use, receives := queueUse(grant, &queues.Items[i]); receives {
			uses = append(uses, use)
		}
	}
	return uses, nil
}

// queueUse is what a Queue received by the grant. What its members spend is not divided among its channels.
func queueUse(grant *v1alpha1.PeerGrant, queue *v1alpha1.Queue) (use usedby.Use, receives bool) {
	use.Kind = "Queue"
	for _, channel := range queue.Status.Received {
		peer, rest, _ := strings.Cut(channel.Source, "/")
		namespace, _, _ := strings.Cut(rest, "/")
		if allows(grant, Request{
			Peer: peer, Namespace: namespace, Kind: v1alpha1.GrantedQueue, ToNamespace: queue.Namespace, Name: queue.Name,
		}) {
			receives = true
			use.Usage.Compressed += max(0, channel.Bytes)
		}
	}
	return use, receives
}

// allows reports whether the grant allows a request, or did before it expired.
func allows(grant *v1alpha1.PeerGrant, request Request) bool {
	lacks, _, found := lacksOf(grant, request)
	return covers(grant, request) && found && len(lacks) == 0
}
