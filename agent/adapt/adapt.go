// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapt tells a policy.Controller what a sender with several streams sees: how
// long blocks take to compress and to send, what the connections carry, what the peer
// says of itself. It has the clock and the lock that the controller does without.
package adapt

import (
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport"
)

const (
	// windowMost is how long a window lasts at most, however few blocks it has.
	windowMost = 250 * time.Millisecond
)

// lengths of windows: each has so many blocks and lasts at least so long. The first are shorter. Before the first one
// ends nothing is known of the network; on a slow one that is a single block. If the network was not what held it up
// then, the next ones try how much it carries, by blocks as they are, of which a network that is slower than that
// should not get many.
var lengths = []struct {
	blocks int
	least  time.Duration
}{{1, 10 * time.Millisecond}, {3, 10 * time.Millisecond}, {3, 10 * time.Millisecond}, {8, 25 * time.Millisecond}}

// Clock tells the time and the CPU time that this process has spent.
type Clock interface {
	Now() time.Time
	CPU() time.Duration
}

// system is the clock of the machine.
type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) CPU() time.Duration {
	user, kernel, err := meter.ProcessCPU()
	if err != nil {
		return 0 // A controller does without.
	}
	return user + kernel
}

// Sender decides for all streams of a sender. It is safe for concurrent use.
type Sender struct {
	clock Clock

	mu         sync.Mutex
	controller *policy.Controller
	streams    map[*Stream]struct{}

	// The window: when it began, how many blocks it has, and what was counted since.
	began  time.Time
	cpu    time.Duration // of the process then
	blocks int
	window policy.Window
	ended  int // windows, as far as that matters to the next one

	// What was sent since the peer last spoke, what it said then and when.
	plain, wire float64
	peer        PeerTotals
	spoke       time.Time
}

// NewSender returns a sender. A nil clock is that of the machine.
func NewSender(o policy.ControllerOptions, clock Clock) *Sender {
	if clock == nil {
		clock = system{}
	}
	return &Sender{clock: clock, controller: policy.NewController(o), streams: make(map[*Stream]struct{})}
}

// Choose implements frame.Chooser.
func (s *Sender) Choose(b policy.Block) policy.Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controller.Choose(b)
}

// Observe implements frame.Chooser.
func (s *Sender) Observe(o policy.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controller.Observe(o)
}

// Value is what the objective makes of what data took, by what is known now.
func (s *Sender) Value(spent policy.Spent) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controller.Value(spent)
}

// Objective is what is minimised.
func (s *Sender) Objective() policy.Objective {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controller.Objective()
}

// Limit changes how many bytes a second the sender may send; 0: any.
func (s *Sender) Limit(bytesPerSecond float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controller.Limit(bytesPerSecond)
}

// Stream is one of a sender's connections.
type Stream struct {
	sender  *Sender
	measure func() (transport.Carried, error)
	before  transport.Carried
	known   bool
}

// Open adds a stream, which must be closed. measure says what its connection carried; an
// error means that nobody knows.
func (s *Sender) Open(measure func() (transport.Carried, error)) *Stream {
	before, err := measure()
	stream := &Stream{sender: s, measure: measure, before: before, known: err == nil}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == 0 {
		s.begin(s.clock.Now())
		s.spoke = s.began
	}
	s.streams[stream] = struct{}{}
	return stream
}

// Close removes the stream.
func (t *Stream) Close() {
	t.sender.mu.Lock()
	defer t.sender.mu.Unlock()
	delete(t.sender.streams, t)
}

// Sent takes in that a block was prepared, in so long by the clock and so much CPU time,
// and then written to the connection for so long.
func (t *Stream) Sent(o meter.Outcome, prepared, preparedCPU, writing time.Duration) {
	s := t.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.window
	w.Plain += float64(o.PlainBytes)
	w.Wire += float64(o.WireBytes)
	w.Compress += o.CPU.Seconds()
	w.Worked += prepared.Seconds()
	w.WorkedCPU += preparedCPU.Seconds()
	w.Writing += writing.Seconds()
	s.plain += float64(o.PlainBytes)
	s.wire += float64(o.WireBytes)
	s.blocks++
	now := s.clock.Now()
	length := now.Sub(s.began)
	enough := lengths[s.ended]
	if s.blocks >= enough.blocks && length >= enough.least || length >= windowMost {
		s.end(now, length)
	}
}

func (s *Sender) begin(now time.Time) {
	s.began, s.cpu, s.blocks, s.window = now, s.clock.CPU(), 0, policy.Window{}
}

// end hands the window to the controller and begins the next.
func (s *Sender) end(now time.Time, length time.Duration) {
	w := &s.window
	w.Elapsed, w.Streams = length.Seconds(), len(s.streams)
	w.CPU = (s.clock.CPU() - s.cpu).Seconds()
	w.Carried = true
	for t := range s.streams {
		carried, err := t.measure()
		if err != nil || !t.known {
			t.before, t.known, w.Carried = carried, err == nil, false
			continue
		}
		w.Delivered += float64(carried.Acknowledged - t.before.Acknowledged)
		w.Busy += (carried.Busy - t.before.Busy).Seconds()
		w.PeerFull += (carried.PeerFull - t.before.PeerFull).Seconds()
		w.Queueing += carried.Queueing.Seconds() / float64(len(s.streams))
		t.before = carried
	}
	s.controller.Window(*w)
	s.ended = min(s.ended+1, len(lengths)-1)
	s.begin(now)
}

// PeerTotals are what a receiver says of itself, since it began.
type PeerTotals struct {
	// CPU is that of the whole process, Inflate the part of it that expanded Inflated bytes.
	CPU, Inflate time.Duration
	Inflated     uint64
	// Busy is how long its streams were not waiting for data, all together; Streams is how
	// many there are.
	Busy    time.Duration
	Streams int
}

// Peer takes in what the receiver says. What CPU time it had spent when it first speaks is nobody's measure: some of
// that was before the first block.
func (s *Sender) Peer(p PeerTotals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	before := s.peer
	if p.Streams > 0 {
		said := policy.Peer{
			Elapsed: now.Sub(s.spoke).Seconds(), Streams: p.Streams, Plain: s.plain, Wire: s.wire,
			Busy: (p.Busy - before.Busy).Seconds(),
		}
		if before != (PeerTotals{}) {
			said.CPU, said.Inflate = (p.CPU - before.CPU).Seconds(), (p.Inflate - before.Inflate).Seconds()
			said.Inflated = float64(p.Inflated) - float64(before.Inflated)
		}
		s.controller.Peer(said)
	}
	s.peer, s.spoke, s.plain, s.wire = p, now, 0, 0
}
