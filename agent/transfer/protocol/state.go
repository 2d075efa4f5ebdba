// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/datapath"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// State is what the live reports of both sides have in common.
type State struct {
	// Wire counts the bytes of the connections between the agents.
	Wire transport.Counter
	// Paths makes a sender's connections.
	Paths datapath.Paths
	// Blocks counts what was encoded or decoded.
	Blocks meter.Meter

	start time.Time

	mu        sync.Mutex
	state     wirev1.AgentState
	failure   *wirev1.Failure
	end       time.Time
	detail    string
	progress  wirev1.Progress
	omissions *tree.Omissions // nil before the session
	contents  *wirev1.ContentDigest
	copied    time.Time
}

// Start says what the side does first. It comes before everything else.
func (s *State) Start(state wirev1.AgentState) { s.state, s.start = state, time.Now() }

// SetDetail says what is waited for.
func (s *State) SetDetail(detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail = failure.Shorten(detail, failure.MaxMessage)
}

// Transferring says that the session has begun, and where this side counts what it leaves out.
func (s *State) Transferring(omissions *tree.Omissions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = wirev1.AgentState_AGENT_STATE_TRANSFERRING
	s.detail = ""
	s.omissions = omissions
}

// SetCopyTime says when the index of the object store that is read was written.
func (s *State) SetCopyTime(written time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copied = written
}

// SetContents says what both sides have computed of the content of the run; nil: nothing.
func (s *State) SetContents(digest *wirev1.ContentDigest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contents = digest
}

// Update changes the progress.
func (s *State) Update(change func(*wirev1.Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
}

// End says how it ended: nil is success.
func (s *State) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// However long it took, also where the clock was set in between.
	s.end = s.start.Add(time.Since(s.start))
	s.detail = ""
	s.state = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	if err != nil {
		s.state = wirev1.AgentState_AGENT_STATE_FAILED
		s.failure = failure.ToWire(err)
	}
}

// Snapshot returns the report as it is now, without CPU time and what became of blocks.
func (s *State) Snapshot() *wirev1.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	report := &wirev1.Report{
		State:        s.state,
		Version:      wirev1.Version,
		Architecture: runtime.GOARCH,
		StartTime:    timestamppb.New(s.start),
		Progress:     proto.CloneOf(&s.progress),
		Cpu:          &wirev1.CPU{AcceleratorNanos: uint64(hardware.CallTime())},
		WireBytes:    uint64(s.Wire.Bytes()),
		Traffic:      s.Wire.Traffic().Wire(),
		DataPath:     s.Paths.Seen(),
		Detail:       s.detail,
	}
	if s.failure != nil {
		report.Failure = proto.CloneOf(s.failure)
	}
	if !s.end.IsZero() {
		report.EndTime = timestamppb.New(s.end)
	}
	if !s.copied.IsZero() {
		report.CopyTime = timestamppb.New(s.copied)
	}
	if s.contents != nil {
		report.Contents = proto.CloneOf(s.contents)
	}
	if s.omissions != nil {
		report.Omissions = s.omissions.ToWire()
	}
	return report
}

// ProcessNanos is the CPU time of this process in nanoseconds; 0 if the kernel does not say.
func ProcessNanos() uint64 {
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return 0
	}
	return uint64(user + system)
}
