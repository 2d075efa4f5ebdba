// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

// count adds to the figures of the attempt and its run what a report says was used since the one before. A report that
// lacks figures, as that of an agent that was killed, leaves them as they are.
func (d *transferDecision) count(report *wirev1.Report) {
	status := &d.transfer.Status
	before := usage.FromStatus(status.Usage)
	now := before.Reached(d.used(report))
	if now == (usage.Usage{}) {
		return
	}
	status.Usage = now.Status()
	status.Run.Usage = usage.FromStatus(status.Run.Usage).Plus(now.Since(before)).Status()
}

// used is what a report says was used, as far as that can be where this cluster is charged for both sides.
func (d *transferDecision) used(report *wirev1.Report) usage.Usage {
	run := d.transfer.Status.Run
	if run.Route != v1alpha1.RouteDirect {
		return usage.Of(report, usage.OneProcess(run.Route), d.facts.Network)
	}
	limits := d.facts.Limits
	switch {
	case d.facts.Job != nil:
		limits.Elapsed = d.facts.Now.Sub(d.facts.Job.CreationTimestamp.Time)
	case run.StartTime != nil:
		limits.Elapsed = d.facts.Now.Sub(run.StartTime.Time)
	}
	return usage.Within(report, d.facts.Network, limits)
}

// charge adds to the costs what was counted since the report before. Of an attempt that ended while the manager was
// away it is the time of its end that counts, unless the clock of its node is wrong.
func (d *transferDecision) charge(report *wirev1.Report) {
	status, at := &d.transfer.Status, d.facts.Now
	if report.GetCpu() == nil {
		return
	}
	if end, run := report.GetEndTime(), status.Run; end != nil && end.AsTime().Before(at) &&
		(run.StartTime == nil || end.AsTime().After(run.StartTime.Time)) {
		at = end.AsTime().Truncate(time.Second)
	}
	prices := d.prices(at)
	status.Cost = tariff.Charge(status.Cost, d.own(status.Usage), prices, at)
	status.Run.Cost = tariff.Charge(status.Run.Cost, d.own(status.Run.Usage), prices, at)
}

// own is what this cluster spent of a usage: who runs the cluster of the other side pays for that, and may report what
// they like.
func (d *transferDecision) own(status *v1alpha1.UsageStatus) tariff.Usage {
	used := usage.FromStatus(status)
	if !IsLocal(d.transfer) {
		used.Receive = usage.CPU{}
	}
	return tariff.Used(used)
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

// charge counts what a report says was used, and charges for it unless the Transfer is of this cluster, which pays for
// both sides itself.
func (d *deliveryDecision) charge(report *wirev1.Report) {
	status, at := &d.delivery.Status, d.facts.Now
	used := usage.Of(report, false, d.facts.Network)
	used.Receive[usage.Network] += d.gateways(report)
	now := usage.FromStatus(status.Usage).Reached(used)
	if now == (usage.Usage{}) {
		return
	}
	status.Usage = now.Status()
	if d.delivery.Spec.Peer == "" || report.GetCpu() == nil {
		return
	}
	prices, err := tariff.Resolve(tariff.Query{
		Tariffs: d.facts.Tariffs, Node: d.facts.NodeLabels, Peer: d.delivery.Spec.Peer,
		Direction: v1alpha1.DirectionReceive, Time: at,
	})
	if err != nil {
		return // the conditions of the Tariff say so; what is used waits for a price
	}
	if cost := status.Cost; d.facts.NodeLabels == nil && cost != nil && len(cost.Periods) > 0 {
		prices = &cost.Periods[0].Prices // the node is gone, and what it cost is known
	}
	status.Cost = tariff.Charge(status.Cost, tariff.Used(now), prices, at)
}

// gateways is what they spent on what came from another cluster, in nanoseconds.
func (d *deliveryDecision) gateways(report *wirev1.Report) int64 {
	if d.delivery.Spec.Peer == "" {
		return 0
	}
	return d.facts.Network.Gateways(report.GetWireBytes())
}
