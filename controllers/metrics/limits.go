// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

var (
	limitDescription = describe("lighterage_shared_limit",
		"Limits that namespaces share, of a Peer, or, with an empty peer, of the cluster: runningTransfers, and "+
			"bandwidthShare in bytes per second.", "peer", "resource")
	limitUsedDescription = describe("lighterage_shared_limit_used",
		"What running Transfers have of lighterage_shared_limit.", "peer", "resource")
)

// heldBy is what an object counts against limits that are shared.
func heldBy(object any) (quota.Held, bool) {
	if transfer, is := object.(*v1alpha1.Transfer); is {
		return quota.TransferHolds(transfer)
	}
	return quota.Held{}, false
}

// showLimits shows limits that are shared, and what is used of them.
func (i *Inventory) showLimits(out show) {
	var all []quota.Limits
	if len(i.limits) > 0 {
		all = append(all, quota.OfCluster(i.limits))
	}
	for _, peer := range i.peers {
		if limits, limited := quota.OfPeer(peer); limited {
			all = append(all, limits)
		}
	}
	if len(all) == 0 {
		return
	}
	held := slices.Collect(maps.Values(i.held))
	for _, limits := range all {
		used := limits.Used(held)
		for resource, limit := range limits.Hard {
			out(limitDescription, float64(limit), limits.Peer, string(resource))
			out(limitUsedDescription, float64(used[resource]), limits.Peer, string(resource))
		}
	}
}
