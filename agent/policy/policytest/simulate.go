// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policytest simulates a transfer, to see what a controller makes of machines,
// networks and data that are not at hand. The simulation is one of queues: streams that
// compress on cores, a network with a buffer before it, a peer with one before it. It has
// no randomness and no clock.
package policytest

import (
	"math"
	"slices"

	"github.com/lighterage/lighterage/agent/policy"
)

// Decider decides how blocks are sent. A policy.Controller is one.
type Decider interface {
	Choose(policy.Block) policy.Choice
	Observe(policy.Outcome)
	Window(policy.Window)
	Peer(policy.Peer)
}

// Fixed is a decider that always does the same.
type Fixed struct{ policy.Option }

// Choose implements Decider.
func (f Fixed) Choose(policy.Block) policy.Choice { return policy.Choice{Option: f.Option} }

// Observe implements Decider.
func (Fixed) Observe(policy.Outcome) {}

// Window implements Decider.
func (Fixed) Window(policy.Window) {}

// Peer implements Decider.
func (Fixed) Peer(policy.Peer) {}

// Effect is what an option makes of data, for each byte of them.
type Effect struct {
	// Wire is bytes, Compress and Inflate are CPU seconds.
	Wire, Compress, Inflate float64
}

// Data are blocks of one kind.
type Data struct {
	Name string
	// Predicted is what a sample promises, as a share.
	Predicted float64
	Effects   map[policy.Option]Effect
}

// World is where a transfer runs. Times are in seconds.
type World struct {
	Cores, PeerCores int
	// Crowding is by how much other work makes everything on the sender take longer: 1 is an
	// idle machine.
	Crowding float64
	// Link is what the network carries in bytes a second, 0 whatever is sent.
	Link float64
	// Buffer is how many bytes the connections hold.
	Buffer float64
	// PeerRate is what the peer's disk takes in bytes of plain data a second, 0 all.
	PeerRate float64
	// SendPlain, SendWire, ReceivePlain and ReceiveWire are CPU seconds for each byte, besides compressing.
	SendPlain, SendWire, ReceivePlain, ReceiveWire float64
	// Hardware says that hardware may compress.
	Hardware bool
}

// Result is what a transfer took.
type Result struct {
	Elapsed, CPU, Bytes float64
	Blocks              map[policy.Option]int
	Reasons             map[policy.Reason]int
	// Sequence is what was done with each block.
	Sequence []policy.Option
}

// Cost returns what a transfer took in money.
func (r Result) Cost(p policy.Prices) float64 {
	return r.CPU/3600*p.CPUHour + r.Bytes/(1<<30)*p.NetworkGiB
}

// Value returns what an objective makes of a result.
func (r Result) Value(o policy.Objective, p policy.Prices) float64 {
	switch o {
	case policy.Cost:
		return r.Cost(p)
	case policy.CPU:
		return r.CPU
	case policy.Bytes:
		return r.Bytes
	default:
		return r.Elapsed
	}
}

const (
	blockSize = 1 << 20
	// A window ends as one of a sender does (package adapt).
	windowBlocks, windowLeast, windowMost = 8, 0.025, 0.25
)

// Run sends blocks, data in turn, and returns what it took.
func Run(w World, d Decider, data []Data, blocks int) Result {
	r := Result{Blocks: map[policy.Option]int{}, Reasons: map[policy.Reason]int{}}
	s := &run{World: w, workers: make([]float64, w.Cores), peers: make([]float64, w.PeerCores)}
	if s.Crowding < 1 {
		s.Crowding = 1
	}
	s.window.Streams = w.Cores
	for i := range blocks {
		s.block(d, &data[i%len(data)], &r)
	}
	r.Elapsed = max(slices.Max(s.workers), slices.Max(s.peers), s.wire)
	return r
}

// run is the state of a simulation: when each part of it is free again.
type run struct {
	World
	workers, peers []float64
	wire           float64
	window         policy.Window
	began          float64
	blocks         int
	sent, acked    float64 // bytes in all, and those that had arrived when the last window ended
	peer           policy.Peer
	peerBegan      float64
}

func (s *run) block(d Decider, data *Data, r *Result) {
	at := 0
	for i := range s.workers {
		if s.workers[i] < s.workers[at] {
			at = i
		}
	}
	now := s.workers[at]
	predicted := int(data.Predicted * blockSize)
	choice := d.Choose(policy.Block{Size: blockSize, Predicted: predicted, Hardware: s.Hardware, Software: true})
	effect := Effect{Wire: 1}
	if !choice.Stored() {
		effect = data.Effects[choice.Option]
	}
	r.Blocks[choice.Option]++
	r.Reasons[choice.Reason]++
	r.Sequence = append(r.Sequence, choice.Option)
	wire := math.Min(effect.Wire, 1)*blockSize + 40
	compress := effect.Compress * blockSize
	prepare, write := compress+s.SendPlain*blockSize, s.SendWire*wire

	// The network takes the bytes when it is free, and the write ends when the buffer has space. The peer has a buffer
	// too; when that is full the network stands still.
	carries := 1e-12
	if s.Link > 0 {
		carries = 1 / s.Link
	}
	inflates := (effect.Inflate+s.ReceivePlain)*blockSize + s.ReceiveWire*wire
	if s.PeerRate > 0 {
		inflates = math.Max(inflates, float64(len(s.peers))*blockSize/s.PeerRate)
	}
	p := 0
	for i := range s.peers {
		if s.peers[i] < s.peers[p] {
			p = i
		}
	}
	prepared := now + prepare*s.Crowding
	s.wire = math.Max(s.wire, prepared) + wire*carries
	space := s.Buffer / wire * inflates / float64(len(s.peers))
	full := math.Max(0, s.peers[p]-space-s.wire)
	s.wire += full
	s.peers[p] = math.Max(s.peers[p], s.wire) + inflates
	blocked := math.Max(prepared+write*s.Crowding, s.wire-s.Buffer*carries)
	s.workers[at] = blocked

	r.CPU += prepare + write + (effect.Inflate+s.ReceivePlain)*blockSize + s.ReceiveWire*wire
	r.Bytes += wire
	if !choice.Stored() {
		d.Observe(
			policy.Outcome{Option: choice.Option, Size: blockSize, Predicted: predicted, Wire: int(wire), CPU: compress},
		)
	}

	win := &s.window
	win.Plain += blockSize
	win.Wire += wire
	win.CPU += prepare + write
	win.Compress += compress
	win.Worked += prepare * s.Crowding
	win.WorkedCPU += prepare
	win.Writing += blocked - now - prepare*s.Crowding
	win.PeerFull += full
	win.Busy += math.Max(wire*carries*float64(len(s.workers)), blocked-now-prepare*s.Crowding)
	s.sent += wire
	s.blocks++
	s.peer.Plain += blockSize
	s.peer.Wire += wire
	s.peer.CPU += (effect.Inflate+s.ReceivePlain)*blockSize + s.ReceiveWire*wire
	s.peer.Inflate += effect.Inflate * blockSize
	if !choice.Stored() {
		s.peer.Inflated += blockSize
	}
	s.peer.Busy += inflates
	s.report(d, blocked)
}

// report ends windows, and has the peer speak once a second.
func (s *run) report(d Decider, now float64) {
	length := now - s.began
	if s.blocks >= windowBlocks && length >= windowLeast || length >= windowMost {
		s.window.Elapsed, s.window.Carried = length, true
		arrived := s.sent - math.Max(0, s.wire-now)*s.Link
		s.window.Delivered, s.acked = arrived-s.acked, arrived
		s.window.Busy = math.Min(s.window.Busy, length*float64(s.window.Streams))
		d.Window(s.window)
		s.window, s.blocks, s.began = policy.Window{Streams: s.window.Streams}, 0, now
	}
	if length := now - s.peerBegan; length >= 1 {
		s.peer.Elapsed, s.peer.Streams = length, len(s.peers)
		d.Peer(s.peer)
		s.peer, s.peerBegan = policy.Peer{}, now
	}
}
