// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// ownWork is what a report says without the CPU time that another cluster spent: whoever runs that cluster pays for it,
// and may report what they like.
func ownWork(t *v1alpha1.Transfer, report *wirev1.Report) *wirev1.Report {
	if IsLocal(t) || report.GetCpu() == nil {
		return report
	}
	own := proto.CloneOf(report)
	own.Cpu.ReceiveNanos, own.Cpu.DecompressNanos = 0, 0
	return own
}

// charge adds to the cost what a report says was used since the one before. Of an attempt that ended while the manager
// was away it is the time of its end that counts, unless the clock of its node is wrong.
func (d *transferDecision) charge(report *wirev1.Report) {
	status, at := &d.transfer.Status, d.facts.Now
	if end, run := report.GetEndTime(), status.Run; end != nil && end.AsTime().Before(at) &&
		(run.StartTime == nil || end.AsTime().After(run.StartTime.Time)) {
		at = end.AsTime().Truncate(time.Second)
	}
	status.Cost = agentreport.CostStatus(status.Cost, ownWork(d.transfer, report), d.facts.NetworkSecondsPerGiB, d.prices(at), at)
}

// prices that are in force: those that the policy stated when the run began, or else those of its Tariff. What has been
// charged for a node says what it costs when its labels are not known any more.
func (d *transferDecision) prices(at time.Time) *v1alpha1.PricesStatus {
	p := d.transfer.Status.Policy
	if p == nil {
		return nil
	}
	if p.Prices != nil && p.Prices.Source != v1alpha1.PricesOfTariff {
		return p.Prices
	}
	if cost := d.transfer.Status.Cost; d.facts.NodeLabels == nil && cost != nil && len(cost.Periods) > 0 {
		return &cost.Periods[0].Prices
	}
	prices, err := tariff.Resolve(tariff.Query{
		Tariffs: d.facts.Tariffs, Name: p.TariffName, Node: d.facts.NodeLabels,
		Peer: d.transfer.Spec.Destination.Peer, Direction: v1alpha1.DirectionSend, Time: at,
	})
	if err != nil {
		return nil // the conditions of the CompressionPolicy say so; what is used waits for a price
	}
	return prices
}
