// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const gib = 1 << 30

// NetworkCost is what the network stack of a node spends on no process's account, in seconds.
type NetworkCost struct {
	// PerGiB on the wire, for reports that do not count segments.
	PerGiB float64
	// Segments is nil where they were not calibrated.
	Segments *SegmentCost
	// Gateway is the CPU time of gateways for each GiB that they pass to agents of this cluster, 0 if it is not known.
	Gateway float64
}

// Gateways estimates what gateways of this cluster spent on so many bytes, in nanoseconds.
func (n *NetworkCost) Gateways(bytes uint64) int64 {
	if n == nil {
		return 0
	}
	return rounded(float64(bytes) / gib * n.Gateway)
}

// SegmentCost is what arriving segments cost.
type SegmentCost struct {
	// Acknowledgement arrives where data is sent, and has none itself; Segment has data, of which each GiB costs PerGiB.
	Acknowledgement, Segment, PerGiB float64
}

// Nanos estimates what the network stack spent on behalf of the agent that reports; nil for a nil NetworkCost, of which
// nothing is known.
func (n *NetworkCost) Nanos(report *wirev1.Report) *int64 {
	if n == nil {
		return nil
	}
	seconds := float64(report.GetWireBytes()) / gib * n.PerGiB
	if t := report.GetTraffic(); t != nil && n.Segments != nil {
		seconds = n.Segments.seconds(t)
	}
	nanos := rounded(seconds)
	return &nanos
}

// peerNanos is the same on behalf of the receiver of which a sender reports, at the rates of the sender's node. It is 0
// where the receiver does not count segments: what is spent for a byte on the wire is what both sides spend.
func (n *NetworkCost) peerNanos(report *wirev1.Report) int64 {
	if n == nil || n.Segments == nil {
		return 0
	}
	return rounded(n.Segments.seconds(report.GetPeerTraffic()))
}

// Both is what Nanos returns, with what was spent on behalf of the receiver of which a sender reports.
func (n *NetworkCost) Both(report *wirev1.Report) *int64 {
	nanos := n.Nanos(report)
	if nanos != nil {
		*nanos = sum(*nanos, n.peerNanos(report))
	}
	return nanos
}

func (c *SegmentCost) seconds(t *wirev1.Traffic) float64 {
	return float64(t.GetAcknowledgements())*c.Acknowledgement + float64(t.GetDataSegments())*c.Segment +
		float64(t.GetReceivedBytes())/gib*c.PerGiB
}

func rounded(seconds float64) int64 {
	return bounded(uint64(math.Round(max(0, min(seconds*1e9, most)))))
}
