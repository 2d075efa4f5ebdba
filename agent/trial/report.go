// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Report is the live report of a trial. It is a control.Reporter.
type Report struct {
	mu         sync.Mutex
	state      wirev1.AgentState
	detail     string
	failure    *wirev1.Failure
	start, end time.Time
	result     []byte
}

// NewReport returns the report of a trial that begins.
func NewReport() *Report {
	return &Report{
		state: wirev1.AgentState_AGENT_STATE_MEASURING, start: time.Now(), detail: "the source is being sampled",
	}
}

// Progress says what is being measured, as Options.Progress does.
func (r *Report) Progress(what string, n, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail = "measuring " + what
	if of > 0 {
		r.detail += fmt.Sprintf(", %d of %d", n, of)
	}
}

// Result keeps what was found, to be shown when the trial has ended well.
func (r *Report) Result(found *wirev1.TrialResult) error {
	found = proto.CloneOf(found)
	if a := found.GetAccelerator(); a != nil {
		a.Message = failure.Shorten(a.GetMessage(), maxAccelerator)
	}
	b, err := proto.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = b
	return nil
}

// End says how it ended: nil is success.
func (r *Report) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// However long it took, also where the clock was set in between.
	r.end, r.detail = r.start.Add(time.Since(r.start)), ""
	r.state = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	if err != nil {
		r.state, r.failure, r.result = wirev1.AgentState_AGENT_STATE_FAILED, failure.ToWire(err), nil
	}
}

// Report returns the report as it is now.
func (r *Report) Report() *wirev1.Report {
	user, system, err := meter.ProcessCPU()
	if err != nil {
		user, system = 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report := &wirev1.Report{
		State: r.state, Version: wirev1.Version, Architecture: runtime.GOARCH, StartTime: timestamppb.New(r.start),
		Detail: r.detail,
		Cpu:    &wirev1.CPU{SendNanos: uint64(user + system), AcceleratorNanos: uint64(hardware.CallTime())},
	}
	if r.failure != nil {
		report.Failure = proto.CloneOf(r.failure)
	}
	if !r.end.IsZero() {
		report.EndTime = timestamppb.New(r.end)
		report.Trial = append([]byte(nil), r.result...)
	}
	return report
}
