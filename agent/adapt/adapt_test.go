// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/policy/policytest"
	"github.com/lighterage/lighterage/agent/transport"
)

// clock is set by a test.
type clock struct {
	now time.Time
	cpu time.Duration
}

func (c *clock) Now() time.Time     { return c.now }
func (c *clock) CPU() time.Duration { return c.cpu }

const mib = 1 << 20

// line is a connection over a network that carries so many bytes a second, as a stream sees it.
type line struct {
	t       *testing.T
	clock   *clock
	sender  *adapt.Sender
	stream  *adapt.Stream
	rate    float64
	full    bool // the peer has no space
	carried transport.Carried
	broken  error
	chosen  map[policy.Option]int
}

func newLine(t *testing.T, o policy.Objective, rate float64) *line {
	t.Helper()
	l := &line{t: t, clock: &clock{now: time.Unix(1e9, 0)}, rate: rate, chosen: map[policy.Option]int{}}
	l.sender = adapt.NewSender(
		policy.ControllerOptions{Objective: o, Ways: policytest.Measured(), Cores: 1, PeerCores: 2}, l.clock,
	)
	l.stream = l.sender.Open(func() (transport.Carried, error) { return l.carried, l.broken })
	t.Cleanup(l.stream.Close)
	return l
}

// send sends blocks of records as they would be sent here.
func (l *line) send(blocks int) {
	data := policytest.Kinds()[2]
	for range blocks {
		choice := l.sender.Choose(policy.Block{Size: mib, Predicted: mib * 58 / 100, Software: true})
		effect := policytest.Effect{Wire: 1}
		if !choice.Stored() {
			effect = data.Effects[choice.Option]
		}
		l.chosen[choice.Option]++
		wire := int(effect.Wire * mib)
		compress := time.Duration(effect.Compress * mib * 1e9)
		if !choice.Stored() {
			l.sender.Observe(
				policy.Outcome{Option: choice.Option, Size: mib, Predicted: mib * 58 / 100, Wire: wire, CPU: compress.Seconds()},
			)
		}
		write := time.Duration(float64(wire))
		l.clock.cpu += compress + write
		if carry := time.Duration(float64(wire) / l.rate * 1e9); carry > write {
			write = carry
		}
		l.clock.now = l.clock.now.Add(compress + write)
		l.carried.Acknowledged += uint64(wire)
		l.carried.Busy += write
		if l.full {
			l.carried.PeerFull += write
		}
		l.stream.Sent(meter.Outcome{PlainBytes: mib, WireBytes: wire, CPU: compress}, compress, compress, write)
	}
}

func (l *line) stored() int { return l.chosen[policy.Option{}] }

// TestNetwork: the controller hears of a slow network and of a fast one.
func TestNetwork(t *testing.T) {
	slow := newLine(t, policy.Elapsed, 10e6)
	slow.send(200)
	if slow.stored() > 10 {
		t.Errorf("over 10 MB/s: %v", slow.chosen)
	}
	fast := newLine(t, policy.Elapsed, 5e9)
	fast.send(200)
	if fast.stored() < 150 {
		t.Errorf("over 5 GB/s: %v", fast.chosen)
	}
}

// TestStart: a slow network is known after the first block, and a fast one gets few blocks as they are to show that it
// is not faster.
func TestStart(t *testing.T) {
	slow := newLine(t, policy.Elapsed, 1e6)
	slow.send(1)
	clear(slow.chosen)
	slow.send(1)
	for option := range slow.chosen {
		if option.Level <= codec.Fast {
			t.Errorf("the second block over 1 MB/s: %v", slow.chosen)
		}
	}
	fast := newLine(t, policy.Elapsed, 100e6)
	fast.send(50)
	if fast.stored() > 6 {
		t.Errorf("over 100 MB/s: %v", fast.chosen)
	}
}

// TestWithoutTheKernel: where nobody knows what a connection carries, waiting in writes is what tells.
func TestWithoutTheKernel(t *testing.T) {
	slow := newLine(t, policy.Elapsed, 10e6)
	slow.broken = errors.New("not TCP")
	slow.send(200)
	if slow.stored() > 10 {
		t.Errorf("over 10 MB/s: %v", slow.chosen)
	}
}

// TestPeer: a receiver without space that works all the time is no slow network; one that waits for data has a small
// window.
func TestPeer(t *testing.T) {
	effort := func(busy time.Duration) int {
		l := newLine(t, policy.Elapsed, 100e6)
		l.full = true
		var said adapt.PeerTotals
		for range 20 {
			l.sender.Peer(said)
			before := l.clock.now
			l.send(50)
			second := l.clock.now.Sub(before)
			said.Streams = 1
			said.Busy += time.Duration(float64(busy) * second.Seconds())
			said.CPU += second / 20
		}
		return l.stored()
	}
	if idle, working := effort(100*time.Millisecond), effort(time.Second); idle > 200 || working < idle+200 {
		t.Errorf("%d of 1000 blocks go as they are to a receiver that waits for data, %d to one that does not", idle, working)
	}
}

func TestConcurrency(t *testing.T) {
	s := adapt.NewSender(policy.ControllerOptions{Objective: policy.CPU, Ways: policytest.Measured(), Cores: 4}, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			stream := s.Open(func() (transport.Carried, error) { return transport.Carried{}, nil })
			defer stream.Close()
			for range 200 {
				if choice := s.Choose(policy.Block{Size: mib, Predicted: mib / 3, Software: true}); choice.Codec != codec.None {
					s.Observe(policy.Outcome{Option: choice.Option, Size: mib, Predicted: mib / 3, Wire: mib / 3, CPU: 0.01})
				}
				stream.Sent(
					meter.Outcome{PlainBytes: mib, WireBytes: mib / 3, CPU: time.Millisecond}, time.Millisecond, time.Millisecond,
					time.Millisecond,
				)
				s.Peer(adapt.PeerTotals{CPU: 1, Streams: 4})
			}
		})
	}
	wg.Wait()
}
