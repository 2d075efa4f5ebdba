// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

// Counters are what an agent counts.
type Counters struct {
	// Report has compression, decompression, CPU and bytes on the wire.
	Report *wirev1.Report
	// ChannelBytes are those of the latter with other clusters.
	ChannelBytes uint64
	// GatewayBytes are those of the latter that a gateway of this cluster passed.
	GatewayBytes uint64
	// Since when it counts; nil while it has nothing to count.
	Since *timestamppb.Timestamp
}

// Usage is what agents have used, for usage.Count.
func Usage[R Report](agents []Agent[R], counters func(R) Counters) []usage.Replica {
	var list []usage.Replica
	for _, agent := range agents {
		one := usage.Replica{UID: string(agent.Pod.UID), Node: agent.Pod.Spec.NodeName}
		if counts := counters(agent.Report); counts.Since.IsValid() {
			one.Since = counts.Since.AsTime()
			one.Usage = usage.Of(counts.Report, true, agent.Network)
			one.Usage.Send[usage.Network] += agent.Network.Gateways(counts.GatewayBytes)
			one.Usage.Channel = min(Clamp(counts.ChannelBytes), one.Usage.Wire)
		}
		list = append(list, one)
	}
	return list
}

// Prices are those in force for what agents do; nil if there are none, as the conditions of the CompressionPolicy say.
// Work goes to all alike, so that the price of a CPU hour is the mean of those of the nodes of the agents that count.
// query lacks nodes.
func Prices[R Report](agents []Agent[R], counters func(R) Counters, query tariff.Query) *v1alpha1.PricesStatus {
	var all []*v1alpha1.PricesStatus
	for _, agent := range agents {
		if !counters(agent.Report).Since.IsValid() {
			continue
		}
		query.Node = agent.NodeLabels
		prices, _ := tariff.Resolve(query)
		if prices == nil {
			return nil
		}
		all = append(all, prices)
	}
	return tariff.Mean(all)
}
