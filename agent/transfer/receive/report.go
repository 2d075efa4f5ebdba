// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Report is the live report of a receiver. It is a control.Reporter.
type Report struct{ protocol.State }

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
	report.Decompression = decompression(&blocks)
	return report
}

func decompression(s *meter.Snapshot) *wirev1.Decompression {
	return &wirev1.Decompression{
		Hardware: protocol.Operations(s.Hardware),
		Software: protocol.Operations(s.Software),
		Fallback: protocol.Operations(s.Fallback),
	}
}
