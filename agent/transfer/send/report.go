// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/longpath"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ReasonNothingToSend is the reason of compression when no block was sent.
const ReasonNothingToSend = "NothingToSend"

// Report is the live report of a sender, with what the receiver says of itself. It is a control.Reporter.
type Report struct {
	protocol.State
	// Store counts what is asked of object stores.
	Store objectstore.Counter
	// reading is the CPU time in nanoseconds that reading files took.
	reading atomic.Int64
	// path of the newest connection; nil before there was one.
	path atomic.Pointer[longpath.Path]
	// place in a Fan, whose CPU time this is a share of; nil: all of it.
	place atomic.Pointer[Place]
	// decides says what the newest attempt chooses by; nil before there is one that does.
	decides atomic.Pointer[func() *wirev1.Decisions]

	mu sync.Mutex
	// inflated counts what this side inflates, and software is why software does; nil: what the receiver says is
	// reported.
	inflated  *meter.Meter
	software  policy.Reason
	peer      *wirev1.Received // nil before the receiver has said something
	omissions []*wirev1.Omission
}

// NewReport returns the report of a sender that is about to open its run.
func NewReport() *Report {
	r := &Report{}
	r.Start(wirev1.AgentState_AGENT_STATE_OPENING)
	return r
}

// SetPath says which path the newest connection to the receiver takes.
func (r *Report) SetPath(path longpath.Path) { r.path.Store(&path) }

// Path is the one that SetPath was last told.
func (r *Report) Path() longpath.Path {
	if path := r.path.Load(); path != nil {
		return *path
	}
	return longpath.Path{}
}

// deciding has what an attempt decides reported.
func (r *Report) deciding(by func() *wirev1.Decisions) { r.decides.Store(&by) }

// Inflating has what a meter counts reported where there is no receiver, and why software inflates where it does.
func (r *Report) Inflating(m *meter.Meter, software policy.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inflated, r.software = m, software
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
	report.Cpu.ReadNanos = uint64(r.reading.Load())
	report.Compression = compressed(blocks)
	if place := r.place.Load(); place != nil {
		share := place.fan.shares.booked(place)
		report.Cpu.SendNanos, report.Cpu.CompressNanos = share.process, share.compress
		report.Cpu.ReadNanos, report.Cpu.AcceleratorNanos = share.read, share.accelerator
	}
	report.Store = r.Store.Wire()
	if decides := r.decides.Load(); decides != nil {
		report.Decisions = (*decides)()
	}
	if path := r.Path(); report.DataPath != nil {
		report.DataPath.RoundTripNanos, report.DataPath.CongestionControl = uint64(path.RoundTrip), path.Control
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inflated != nil {
		inflated := r.inflated.Snapshot()
		report.Cpu.DecompressNanos = uint64(inflated.CPU)
		report.Decompression = compression.Decompression(inflated, r.software)
	}
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
		report.Cpu.WriteNanos = r.peer.GetCpu().GetWriteNanos()
		report.PeerTraffic = proto.CloneOf(r.peer.GetTraffic())
		report.Decompression = proto.CloneOf(r.peer.GetDecompression())
	}
	return report
}

// compressed names what most blocks are like, those that were not compressed included.
func compressed(s meter.Snapshot) *wirev1.Compression {
	c := compression.Report(s)
	if c.GetEngine() == "" {
		c.Engine = codec.None.String()
	}
	var most int64
	c.Reason = ReasonNothingToSend
	for _, reasons := range []map[policy.Reason]int64{s.Compressed, s.Skipped} {
		for reason, n := range reasons {
			// The name decides between equals, so that reports do not flicker.
			if n > most || n == most && string(reason) < c.GetReason() {
				c.Reason, most = string(reason), n
			}
		}
	}
	return c
}
