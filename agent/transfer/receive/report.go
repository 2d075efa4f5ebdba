// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Report is the live report of a receiver. It is a control.Reporter.
type Report struct {
	protocol.State
	// SoftwareReason is why software inflates where it does; empty if nobody asks. It is set before the session begins.
	SoftwareReason policy.Reason
	// came counts blocks by what compressed them.
	came meter.Meter
	// writing is the CPU time in nanoseconds that writing files took.
	writing atomic.Int64
}

// NewReport returns the report of a receiver that waits for its sender.
func NewReport() *Report {
	r := &Report{}
	r.Start(wirev1.AgentState_AGENT_STATE_WAITING)
	return r
}

// Report returns the report as it is now.
func (r *Report) Report() *wirev1.Report {
	blocks, own := r.Blocks.Snapshot(), protocol.ProcessNanos()
	report := r.Snapshot()
	report.Cpu.ReceiveNanos = own
	report.Cpu.DecompressNanos = uint64(blocks.CPU)
	report.Cpu.WriteNanos = uint64(r.writing.Load())
	came := r.came.Snapshot()
	report.Compression, report.Decompression = compression.Report(came), r.decompression(blocks, came)
	return report
}

// arrived counts a block by its header, which does not name the engine.
func (r *Report) arrived(h frame.Header) {
	paths := map[codec.Class]meter.Path{codec.Hardware: meter.Hardware, codec.Software: meter.Software}
	o := meter.Outcome{Path: paths[h.Class], PlainBytes: int(h.PlainLen), WireBytes: h.BlockLen()}
	if h.Codec != codec.None {
		o.Use.Codec = h.Codec
	}
	r.came.Add(o)
}

// decompression says why software inflated, if it did most: no accelerator does zstd, whatever this node has.
func (r *Report) decompression(blocks, came meter.Snapshot) *wirev1.Decompression {
	why := r.SoftwareReason
	if why != "" && came.Uses[meter.Use{Codec: codec.Zstd}].Bytes > came.Uses[meter.Use{Codec: codec.Deflate}].Bytes {
		why = policy.CodecNotAccelerated
	}
	return compression.Decompression(blocks, why)
}
