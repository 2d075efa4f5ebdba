// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ReasonNothingToSend is the reason of compression when no block was sent.
const ReasonNothingToSend = "NothingToSend"

// Report is the live report of one side. It is a control.Reporter.
type Report struct {
	// Wire counts the bytes of the connections between the agents.
	Wire transport.Counter
	// Blocks counts what was encoded or decoded.
	Blocks meter.Meter

	sender bool

	mu       sync.Mutex
	state    wirev1.AgentState
	failure  *wirev1.Failure
	start    time.Time
	end      time.Time
	detail   string
	progress wirev1.Progress
	own      *tree.Omissions
	// peer's is what the other side reported.
	peer          *wirev1.Received
	peerOmissions []*wirev1.Omission
}

// NewSendReport returns the report of a sender that is about to open its run.
func NewSendReport() *Report {
	return &Report{sender: true, state: wirev1.AgentState_AGENT_STATE_OPENING, start: time.Now()}
}

// NewReceiveReport returns the report of a receiver that waits for its sender.
func NewReceiveReport() *Report {
	return &Report{state: wirev1.AgentState_AGENT_STATE_WAITING, start: time.Now()}
}

// SetDetail says what is waited for.
func (r *Report) SetDetail(detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail = failure.Shorten(detail, failure.MaxMessage)
}

// End says how it ended: nil is success.
func (r *Report) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// However long it took, also where the clock was set in between.
	r.end = r.start.Add(time.Since(r.start))
	r.detail = ""
	r.state = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	if err != nil {
		r.state = wirev1.AgentState_AGENT_STATE_FAILED
		r.failure = failure.ToWire(err)
	}
}

func (r *Report) transferring(own *tree.Omissions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = wirev1.AgentState_AGENT_STATE_TRANSFERRING
	r.detail = ""
	r.own = own
}

// update changes the progress.
func (r *Report) update(change func(*wirev1.Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.progress)
}

// received takes over what the receiver says.
func (r *Report) received(m *wirev1.Received, omissions []*wirev1.Omission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m != nil {
		r.peer = m
	}
	r.peerOmissions = omissions
}

// Report returns the report as it is now.
func (r *Report) Report() *wirev1.Report {
	blocks := r.Blocks.Snapshot()
	user, system, err := meter.ProcessCPU()
	own := uint64(user + system)
	if err != nil {
		own = 0
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	report := &wirev1.Report{
		State:        r.state,
		Version:      wirev1.Version,
		Architecture: runtime.GOARCH,
		StartTime:    timestamppb.New(r.start),
		Progress:     proto.CloneOf(&r.progress),
		Cpu:          &wirev1.CPU{},
		WireBytes:    uint64(r.Wire.Bytes()),
		Detail:       r.detail,
	}
	if r.failure != nil {
		report.Failure = proto.CloneOf(r.failure)
	}
	if !r.end.IsZero() {
		report.EndTime = timestamppb.New(r.end)
	}
	if r.own != nil {
		report.Omissions = r.own.ToWire()
	}
	if !r.sender {
		report.Cpu.ReceiveNanos = own
		report.Cpu.DecompressNanos = uint64(blocks.CPU)
		report.Decompression = decompression(&blocks)
		return report
	}
	for _, o := range r.peerOmissions {
		report.Omissions = append(report.Omissions, proto.CloneOf(o))
	}
	report.Cpu.SendNanos = own
	report.Cpu.CompressNanos = uint64(blocks.CPU)
	report.Compression = r.compression(&blocks)
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

func (r *Report) compression(s *meter.Snapshot) *wirev1.Compression {
	c := &wirev1.Compression{
		Codec:             codec.None.String(),
		Engine:            codec.None.String(),
		Reason:            ReasonNothingToSend,
		UncompressedBytes: uint64(s.UncompressedBytes),
		CompressedBytes:   uint64(s.CompressedBytes),
		Hardware:          operations(s.Hardware),
		Software:          operations(s.Software),
		Stored:            operations(s.Stored),
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

func decompression(s *meter.Snapshot) *wirev1.Decompression {
	return &wirev1.Decompression{
		Hardware: operations(s.Hardware),
		Software: operations(s.Software),
		Fallback: operations(s.Fallback),
	}
}

func operations(c meter.Count) *wirev1.Operations {
	return &wirev1.Operations{Operations: uint64(c.Operations), Bytes: uint64(c.Bytes)}
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
