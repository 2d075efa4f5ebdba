// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	"math"
	"time"

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
	network := Clamp(uint64(math.Round(min(networkNanos(report.GetWireBytes(), perGiB), math.MaxInt64/2))))
	most := func(n uint64) int64 { return min(Clamp(n), mostUsed) }
	return tariff.Usage{
		CPUNanos:   min(Saturated(Saturated(Clamp(c.GetSendNanos()), Clamp(c.GetReceiveNanos())), network), mostUsed),
		CodecNanos: min(Saturated(Clamp(c.GetCompressNanos()), Clamp(c.GetDecompressNanos())), mostUsed),
		WireBytes:  most(report.GetWireBytes()),
		SavedBytes: most(packed.GetUncompressedBytes()) - most(packed.GetCompressedBytes()),
	}
}
