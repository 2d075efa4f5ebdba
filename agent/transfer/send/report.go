// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ReasonNothingToSend is the reason of compression when no block was sent.
const ReasonNothingToSend = "NothingToSend"

// Report is the live report of a sender, with what the receiver says of itself. It is a control.Reporter.
type Report struct {
	protocol.State

	mu        sync.Mutex
	peer      *wirev1.Received // nil before the receiver has said something
	omissions []*wirev1.Omission
}

// NewReport returns the report of a sender that is about to open its run.
func NewReport() *Report {
	r := &Report{}
	r.Start(wirev1.AgentState_AGENT_STATE_OPENING)
	return r
}

// received takes over what the receiver says.
func (r *Report) received(m *wirev1.Received, omissions []*wirev1.Omission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m != nil {
		r.peer = m
	}
	r.omissions = omissions
}

// Report returns the report as it is now.
func (r *Report) Report() *wirev1.Report {
	blocks, own := r.Blocks.Snapshot(), protocol.ProcessNanos()
	// Before what the receiver said, so that a report of the end has all of that.
	report := r.Snapshot()
	report.Cpu.SendNanos = own
	report.Cpu.CompressNanos = uint64(blocks.CPU)
	report.Compression = compression(&blocks)

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.omissions {
		report.Omissions = append(report.Omissions, proto.CloneOf(o))
	}
	if r.peer != nil {
		report.Progress.Files += r.peer.GetFiles()
		report.Progress.Bytes += r.peer.GetBytes()
		report.Progress.PartialBytes = r.peer.GetPartialBytes()
		report.Progress.ResentBytes = r.peer.GetResentBytes()
		report.Progress.Removed = r.peer.GetRemoved()
		report.Cpu.ReceiveNanos = r.peer.GetCpu().GetReceiveNanos()
		report.Cpu.DecompressNanos = r.peer.GetCpu().GetDecompressNanos()
		report.Decompression = proto.CloneOf(r.peer.GetDecompression())
	}
	return report
}

func compression(s *meter.Snapshot) *wirev1.Compression {
	c := &wirev1.Compression{
		Codec:             codec.None.String(),
		Engine:            codec.None.String(),
		Reason:            ReasonNothingToSend,
		UncompressedBytes: uint64(s.UncompressedBytes),
		CompressedBytes:   uint64(s.CompressedBytes),
		Hardware:          protocol.Operations(s.Hardware),
		Software:          protocol.Operations(s.Software),
		Stored:            protocol.Operations(s.Stored),
		Estimate:          estimates(s.Estimate),
	}
	if len(s.Uses) > 0 {
		use := mostUsed(s.Uses)
		c.Codec, c.Engine, c.Level = use.Codec.String(), use.Engine, use.Level.String()
	}
	var most int64
	for _, reasons := range []map[policy.Reason]int64{s.Compressed, s.Skipped} {
		for reason, n := range reasons {
			// The name decides between equals, so that reports do not flicker.
			if n > most || n == most && string(reason) < c.Reason {
				c.Reason, most = string(reason), n
			}
		}
	}
	c.Skipped, c.Reasons = counts(s.Skipped), counts(s.Compressed)
	return c
}

// counts is nil when nothing was counted.
func counts(reasons map[policy.Reason]int64) map[string]uint64 {
	if len(reasons) == 0 {
		return nil
	}
	m := make(map[string]uint64, len(reasons))
	for reason, n := range reasons {
		m[string(reason)] = uint64(n)
	}
	return m
}

// mostUsed is the engine and level that compressed most of the data.
func mostUsed(uses map[meter.Use]meter.Count) meter.Use {
	var best meter.Use
	for use, n := range uses {
		most := uses[best].Bytes
		// Names decide between equals, so that reports do not flicker.
		if n.Bytes > most || n.Bytes == most && (best.Engine == "" || use.Engine < best.Engine ||
			use.Engine == best.Engine && use.Level < best.Level) {
			best = use
		}
	}
	return best
}

// estimates is nil when no sample was taken.
func estimates(e meter.Estimate) *wirev1.Estimate {
	if e == (meter.Estimate{}) {
		return nil
	}
	return &wirev1.Estimate{
		Blocks:     uint64(e.Blocks),
		Bytes:      uint64(e.Bytes),
		ErrorBytes: uint64(e.ErrorBytes),
		Wasted:     uint64(e.Wasted),
		Probes:     uint64(e.Probes),
		Missed:     uint64(e.Missed),
		Nanos:      uint64(e.CPU),
	}
}
