// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/usage"
)

func report(engine string, operations, wire uint64) *wirev1.Report {
	return &wirev1.Report{
		Compression: &wirev1.Compression{
			Engine: engine, Hardware: &wirev1.Operations{Operations: operations, Bytes: 10 * operations},
			Skipped: map[string]uint64{"BelowMinimum": 1},
		},
		Cpu: &wirev1.CPU{SendNanos: 5}, WireBytes: wire,
	}
}

func TestSum(t *testing.T) {
	var s replicas.Sum
	if s.ResetOK || s.Network() != nil {
		t.Error("none of them agree on something")
	}
	s.Add(report("zlib-ng", 2, 100), "monday", &usage.NetworkCost{PerGiB: 1 << 30 / 1e9})
	s.Add(report("dfltcc", 7, 300), "monday", &usage.NetworkCost{PerGiB: 2 << 30 / 1e9})
	c := s.Report.GetCompression()
	if c.GetEngine() != "dfltcc" || c.GetHardware().GetOperations() != 9 || c.GetHardware().GetBytes() != 90 ||
		c.GetSkipped()["BelowMinimum"] != 2 ||
		s.Report.GetCpu().GetSendNanos() != 10 {
		t.Errorf("sum %v", &s.Report)
	}
	if got := s.Network(); got == nil || *got != 700 {
		t.Errorf("the network costs %v, want 700 ns", got)
	}
	if !s.ResetOK || s.Reset != "monday" {
		t.Errorf("reset %q, agreed on: %v", s.Reset, s.ResetOK)
	}
	s.Add(report("go", 1, 100), "", nil)
	if s.ResetOK || s.Network() != nil {
		t.Error("one that has not acted upon the reset, and whose node nobody measured, changes nothing")
	}
}
