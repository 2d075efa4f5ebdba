// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// startGrace is for a receiver that was there before the sender, and for clocks that differ.
	startGrace = 30 * time.Second
	// mostCores of a node that was not measured.
	mostCores = 1024
	// leastSegment is less than TCP puts into a segment of a stream: 536 bytes on the narrowest path. otherSegments are
	// those of handshakes, ends of records and keepalives.
	leastSegment, otherSegments = 512, 4096
)

// Limits are what the agents of a Transfer within a cluster can have used. One namespace is charged for both sides, and
// users of the other one may make its agent report what they like.
type Limits struct {
	// Elapsed is how long the attempt has been there.
	Elapsed time.Duration
	// SendCores and ReceiveCores are those of the nodes of both sides; 0 where they are not known.
	SendCores, ReceiveCores int32
}

// Within is Of for a report of two agents of this cluster: no more CPU time than the cores of a node have had, and no
// more traffic than fits into the bytes that the sender counted.
func Within(report *wirev1.Report, network *NetworkCost, limits Limits) Usage {
	wire := report.GetWireBytes()
	u := Of(&wirev1.Report{
		Cpu: report.GetCpu(), Compression: report.GetCompression(), WireBytes: wire,
		Traffic: within(report.GetTraffic(), wire), PeerTraffic: within(report.GetPeerTraffic(), wire),
	}, false, network)
	u.Send, u.Receive = limits.cpu(u.Send, limits.SendCores), limits.cpu(u.Receive, limits.ReceiveCores)
	return u
}

func (l Limits) cpu(c CPU, cores int32) CPU {
	if cores <= 0 {
		cores = mostCores
	}
	elapsed := sum(max(0, int64(l.Elapsed)), int64(startGrace))
	most := int64(math.MaxInt64)
	if elapsed <= most/int64(cores) {
		most = elapsed * int64(cores)
	}
	for stage := range c {
		c[stage] = min(c[stage], most)
	}
	return c
}

func within(t *wirev1.Traffic, wire uint64) *wirev1.Traffic {
	if t == nil {
		return nil
	}
	segments := wire/leastSegment + otherSegments
	return &wirev1.Traffic{
		DataSegments: min(t.GetDataSegments(), segments), Acknowledgements: min(t.GetAcknowledgements(), segments),
		ReceivedBytes: min(t.GetReceivedBytes(), wire),
	}
}
