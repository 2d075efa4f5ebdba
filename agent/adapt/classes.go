// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
)

const (
	// lookEvery is how many bodies of a class pass from one look at what is known to the next.
	lookEvery = 16
	// tryEvery is how many bodies of a class that is not compressed pass for one that is, to see what that would take
	// now, as long as all that is tried takes at most this share of the CPU time of the process.
	tryEvery = 64
	tryShare = 0.01
	// sendEvery is how many writes there are for one that is measured.
	sendEvery = 16
	// sendingMost writes are measured at once: each holds a thread of the system, and readers decide for how long.
	sendingMost = 4
)

// Classes decides for the bodies or messages that one process compresses for others who wait for them, by what it has
// seen of those that were alike. It is safe for concurrent use. Choose takes no lock unless a look is due.
type Classes struct {
	clock   Clock
	classes []class
	serving atomic.Pointer[policy.Serving]
	// tried is the CPU time of trials in nanoseconds, began that of the process when the first was possible.
	tried atomic.Int64
	began time.Duration
	// sends counts writes, sending those that are being measured.
	sends   atomic.Uint64
	sending atomic.Int64

	mu   sync.Mutex
	send policy.SendCost
	link policy.Typical
	now  policy.Carrier // what both say
}

// class is one of them. Its counters are of bodies about which there was something to decide.
type class struct {
	bodies, bytes, trials atomic.Int64
	// reason is the index in reasons of why its bodies are not compressed; 0: they are.
	reason atomic.Int32

	pipelined bool
	mu        sync.Mutex
	known     policy.Class
}

var reasons = [...]policy.Reason{"", policy.NetworkFaster, policy.CPUDearer}

// NewClasses returns a number of classes, of which pipelined says whether parts of a body travel while the next ones
// are compressed. A nil clock is that of the machine.
func NewClasses(n int, pipelined func(class int) bool, clock Clock) *Classes {
	if clock == nil {
		clock = system{}
	}
	c := &Classes{clock: clock, classes: make([]class, n), began: clock.CPU()}
	for i := range c.classes {
		c.classes[i].pipelined = pipelined(i)
	}
	c.serving.Store(&policy.Serving{})
	return c
}

// Set replaces what is minimised. With afresh, what is known of compressing is forgotten, because other engines or
// levels do it from now on.
func (c *Classes) Set(s policy.Serving, afresh bool) {
	c.serving.Store(&s)
	for i := range c.classes {
		k := &c.classes[i]
		k.mu.Lock()
		if afresh {
			k.known = policy.Class{}
		}
		c.look(k)
		k.mu.Unlock()
	}
}

// Decision is what to do with a body.
type Decision struct {
	// Reason is why it is sent as it is; empty: it is compressed, after which Attempted has to be called.
	Reason policy.Reason
	// Trial says that bodies like it are sent as they are.
	Trial bool
}

// Choose decides about a body of a class.
func (c *Classes) Choose(i int) Decision {
	k := &c.classes[i]
	n := k.bodies.Add(1)
	if n%lookEvery == 0 && k.mu.TryLock() {
		c.look(k)
		k.mu.Unlock()
	}
	reason := reasons[k.reason.Load()]
	if reason != "" && n%tryEvery == 0 && c.affordable() {
		k.trials.Add(1)
		return Decision{Trial: true}
	}
	return Decision{Reason: reason}
}

// Peek returns why a body of the class would be sent as it is; empty: it would be compressed.
func (c *Classes) Peek(i int) policy.Reason { return reasons[c.classes[i].reason.Load()] }

// affordable reports whether trials have taken less than their share.
func (c *Classes) affordable() bool {
	return float64(c.tried.Load()) <= tryShare*float64(c.clock.CPU()-c.began)
}

// Passed counts a body that Choose or nobody decided about, when its length is known.
func (c *Classes) Passed(i int, plain int64) { c.classes[i].bytes.Add(plain) }

// Attempted takes in what became of a body that was to be compressed.
func (c *Classes) Attempted(i int, trial bool, a policy.Attempt) {
	if trial {
		c.tried.Add(int64(a.CPU * float64(time.Second)))
	}
	k := &c.classes[i]
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Observe(a)
}

// look decides again about a class. Its mu is held.
func (c *Classes) look(k *class) {
	c.mu.Lock()
	carrier := c.now
	c.mu.Unlock()
	if carrier.Send == 0 {
		carrier.Send = new(policy.SendCost).PerByte()
	}
	k.known.Look(*c.serving.Load(), carrier, k.pipelined)
	k.reason.Store(int32(max(slices.Index(reasons[:], k.known.Reason()), 0)))
}

// Measures reports whether the next write is one whose CPU time is to be measured. Sent has to follow.
func (c *Classes) Measures() bool {
	if c.sends.Add(1)%sendEvery != 0 {
		return false
	}
	if c.sending.Add(1) > sendingMost {
		c.sending.Add(-1)
		return false
	}
	return true
}

// Sent takes in the CPU time that encrypting and writing so many bytes took.
func (c *Classes) Sent(bytes int, cpu time.Duration) {
	c.sending.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send.Observe(float64(bytes), cpu.Seconds())
	c.now.Send = c.send.PerByte()
}

// Carried takes in for how long each of some bytes occupied a connection.
func (c *Classes) Carried(perByte float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.Observe(perByte)
	c.now.Link = c.link.Value()
}

// Carrier is what a byte takes, as far as it is known.
func (c *Classes) Carrier() policy.Carrier {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Serving is what is minimised.
func (c *Classes) Serving() policy.Serving { return *c.serving.Load() }

// Seen is what is known of a class, and what is done with it.
type Seen struct {
	Class                 int
	Bodies, Bytes, Trials int64
	// Reason is why it is not compressed; empty: it is.
	Reason policy.Reason
	// Recent are attempts, Weighed what the last look compared; zero where there was none yet.
	Recent  policy.Attempt
	Weighed policy.Weighed
}

// Seen returns at most so many classes, those with most bytes first.
func (c *Classes) Seen(most int) []Seen {
	var all []Seen
	for i := range c.classes {
		k := &c.classes[i]
		one := Seen{Class: i, Bodies: k.bodies.Load(), Bytes: k.bytes.Load(), Trials: k.trials.Load()}
		if one.Bodies == 0 {
			continue
		}
		k.mu.Lock()
		one.Reason, one.Recent, one.Weighed = k.known.Reason(), k.known.Recent(), k.known.Weighed()
		k.mu.Unlock()
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Class, b.Class))
	})
	return all[:min(len(all), most)]
}

// Reset sets the counters to 0. What is known stays.
func (c *Classes) Reset() {
	for i := range c.classes {
		k := &c.classes[i]
		k.bodies.Store(0)
		k.bytes.Store(0)
		k.trials.Store(0)
	}
}
