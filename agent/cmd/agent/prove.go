// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// proof is what the mode prove writes.
type proof struct {
	Time         time.Time       `json:"time"`
	Version      string          `json:"version"`
	Architecture string          `json:"architecture"`
	Kernel       string          `json:"kernel,omitempty"`
	CPUModel     string          `json:"cpuModel,omitempty"`
	State        hardware.State  `json:"state"`
	Reason       hardware.Reason `json:"reason"`
	Message      string          `json:"message"`
	// Levels are those that were proved. Rates are of plain bytes per second of CPU time, on one thread.
	Levels             []provedLevel `json:"levels,omitempty"`
	SlowerThanSoftware bool          `json:"slowerThanSoftware,omitempty"`
	// InflateMinSize is absent when the accelerator does not inflate.
	InflateMinSize *int64  `json:"inflateMinSize,omitempty"`
	InflateRate    float64 `json:"inflateBytesPerSecond,omitempty"`
	SoftwareRate   float64 `json:"softwareInflateBytesPerSecond,omitempty"`
}

type provedLevel struct {
	Level         string  `json:"level"`
	Rate          float64 `json:"bytesPerSecond"`
	Ratio         float64 `json:"ratio"`
	SoftwareRate  float64 `json:"softwareBytesPerSecond"`
	SoftwareRatio float64 `json:"softwareRatio"`
}

// prove proves that the accelerator of this machine is used, and writes the evidence. It needs no cluster.
func (a *agent) prove(ctx context.Context) error {
	_, verdict := hardware.Find(ctx)
	p := proofOf(verdict, node.ReadHost(), time.Now())
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("writing the proof: %w", err)
	}
	if verdict.State != hardware.Verified {
		return fmt.Errorf("the use of an accelerator is not proved: %s: %s", verdict.Reason, verdict.Message)
	}
	return nil
}

func proofOf(v hardware.Verdict, host node.Host, now time.Time) proof {
	p := proof{
		Time: now.UTC(), Version: wirev1.Version, Architecture: runtime.GOARCH, Kernel: host.Kernel, CPUModel: host.CPUModel,
		State: v.State, Reason: v.Reason, Message: v.Message, SlowerThanSoftware: v.SlowerThanSoftware,
	}
	for _, s := range v.Compress {
		p.Levels = append(p.Levels, provedLevel{s.Level.String(), s.Hardware, s.HardwareRatio, s.Software, s.SoftwareRatio})
	}
	if v.State == hardware.Verified && v.InflateMinSize != hardware.NeverInflate {
		p.InflateMinSize, p.InflateRate, p.SoftwareRate = &v.InflateMinSize, v.InflateHardware, v.InflateSoftware
	}
	return p
}
