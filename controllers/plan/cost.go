// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// mostUsed bounds each figure that is charged, so that sums of some of them do not overflow: 73 years of CPU time, or
// 2 EiB.
const mostUsed = math.MaxInt64 / 4

// CostStatus is what the work cost that a report is about, of which before is what it had cost until then. Without
// prices that stays. perGiB is the network's CPU seconds per GiB, nil when it is not known.
func CostStatus(
	before *v1alpha1.CostStatus, report *wirev1.Report, perGiB *float64, prices *v1alpha1.PricesStatus, at time.Time,
) *v1alpha1.CostStatus {
	if report.GetCpu() == nil {
		return before
	}
	return tariff.Charge(before, used(report, perGiB), prices, at)
}

// used is what a report says was used, for its price.
func used(report *wirev1.Report, perGiB *float64) tariff.Usage {
	c, packed := report.GetCpu(), report.GetCompression()
	network := clamp(uint64(math.Round(min(networkNanos(report.GetWireBytes(), perGiB), math.MaxInt64/2))))
	most := func(n uint64) int64 { return min(clamp(n), mostUsed) }
	return tariff.Usage{
		CPUNanos:   min(saturated(saturated(clamp(c.GetSendNanos()), clamp(c.GetReceiveNanos())), network), mostUsed),
		CodecNanos: min(saturated(clamp(c.GetCompressNanos()), clamp(c.GetDecompressNanos())), mostUsed),
		WireBytes:  most(report.GetWireBytes()),
		SavedBytes: most(packed.GetUncompressedBytes()) - most(packed.GetCompressedBytes()),
	}
}

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
	status.Cost = CostStatus(status.Cost, ownWork(d.transfer, report), d.facts.NetworkSecondsPerGiB, d.prices(at), at)
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
