// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// Indexes of Deliveries that the gateway's cache must have.
const (
	ServerNameIndex = "status.serverName"
	SenderIndex     = "lighterage.sender"
)

// dataKeyPrefix is that of the keys of targets which are other replicas.
const dataKeyPrefix = "data/"

// lookupPause is the wait between looks for a Delivery that is not known yet.
const lookupPause = 50 * time.Millisecond

// IndexServerName is the function of ServerNameIndex.
func IndexServerName(object client.Object) []string {
	delivery, ok := object.(*v1alpha1.Delivery)
	// An agent that receives from this cluster is nobody's from outside.
	if !ok || delivery.Status.ServerName == "" || delivery.Spec.Peer == "" {
		return nil
	}
	return []string{delivery.Status.ServerName}
}

// IndexSender is the function of SenderIndex, whose values are plan.SenderHash.
func IndexSender(object client.Object) []string {
	delivery, ok := object.(*v1alpha1.Delivery)
	if !ok {
		return nil
	}
	return []string{senderOf(delivery)}
}

// lookup finds the queue or the receiving agent that serves under a name. The sender may have been told of it by
// another gateway, a moment before this one hears of it, so an unknown name is looked for a little longer.
func (g *Gateway) lookup(ctx context.Context, serverName string) (passthrough.Target, bool) {
	if way, ok := parseQueueWay(serverName); ok {
		return g.queueTarget(way) //nolint:contextcheck // a lookup in the cache
	}
	if owner, ok := g.names.Owner(serverName); ok {
		// Another replica waits for this data connection of a peer.
		return passthrough.Target{Address: owner.String(), Key: dataKeyPrefix + serverName}, owner.IsValid()
	}
	if !pki.IsReceiveServerName(serverName) {
		return passthrough.Target{}, false
	}
	grace := time.NewTimer(g.options.LookupGrace)
	defer grace.Stop()
	for {
		target, ok := g.find(serverName) //nolint:contextcheck // in the cache; it is asked once more when ctx has ended
		if ok {
			return target, true
		}
		select {
		case <-ctx.Done():
			return passthrough.Target{}, false
		case <-grace.C:
			return passthrough.Target{}, false
		case <-time.After(lookupPause):
		}
	}
}

// find looks into the cache, whatever became of the context of who asks. That the Delivery was granted when it was
// made is not enough.
func (g *Gateway) find(serverName string) (passthrough.Target, bool) {
	var found v1alpha1.DeliveryList
	err := g.options.Client.List(context.Background(), &found, client.MatchingFields{ServerNameIndex: serverName})
	if err != nil {
		g.options.Log.Error(err, "Deliveries cannot be looked up")
		return passthrough.Target{}, false
	}
	if len(found.Items) != 1 {
		return passthrough.Target{}, false
	}
	delivery := &found.Items[0]
	if delivery.Status.Endpoint == "" || !delivery.DeletionTimestamp.IsZero() {
		return passthrough.Target{}, false
	}
	granted, err := g.granted(delivery)
	if err != nil {
		g.options.Log.Error(err, "Peers and PeerGrants cannot be looked up")
	}
	if !granted {
		return passthrough.Target{}, false
	}
	return passthrough.Target{Address: delivery.Status.Endpoint, Key: deliveryKey(delivery)}, true
}
