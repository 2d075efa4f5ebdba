// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

// passed writes that a connection of a channel has ended. Those of Deliveries are written by the manager, once for all
// connections.
func (g *Gateway) passed(target passthrough.Target, carried passthrough.Carried) {
	way, ok := parseQueueKey(target.Key)
	if !ok {
		return
	}
	result := audit.ResultClosed
	if _, open, err := g.open(way); err == nil && !open {
		result = v1alpha1.ReasonNotGranted
	}
	g.uses.Record(audit.Use{
		Peer: target.Peer, Namespace: target.Namespace, ToNamespace: way.namespace, Kind: v1alpha1.GrantedQueue,
		Name:  way.name,
		Bytes: carried.In, Returned: carried.Out, Duration: carried.Duration, Result: result,
	})
}
