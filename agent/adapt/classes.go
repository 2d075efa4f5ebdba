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
	// Of tryEvery bodies of a class that is not compressed the first tryRun are, to see what that would take now, as long
	// as all that is tried takes at most this share of the CPU time of the process. The first tryCold of them count for
	// nothing: they find the caches full of something else, which took twice the CPU time for messages of 70,000 bytes.
	tryEvery = 256
	tryRun   = 4
	tryCold  = 2
	tryShare = 0.01
	// measureEvery is how many bodies there are for one of which it has to be measured what compressing takes.
	measureEvery = 16
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
	disk policy.Typical
	now  policy.Carrier // what they say
	way  Way
}

// Way is what becomes of the bytes of bodies or messages. Until it is set they are sent once, by the network.
type Way struct {
	// Sends is how often a byte is encrypted and sent, or received and decrypted. Rest is the CPU seconds for storing it.
	Sends, Rest float64
	// Inflate is the CPU seconds for inflating a byte of plain data for those who read it.
	Inflate float64
	// Local says that no network that is measured is in the way, and Stored that a disk is.
	Local, Stored bool
	// Unpriced says that nobody pays for the bytes by the price of the network.
	Unpriced bool
}

// carrier is what a byte takes on its way.
func (w Way) carrier(c policy.Carrier) policy.Carrier {
	if c.Send == 0 {
		c.Send = new(policy.SendCost).PerByte()
	}
	c.Send = w.Sends*c.Send + w.Rest
	c.Inflate, c.Unpriced = w.Inflate, w.Unpriced
	if w.Local {
		c.Link = 0
	}
	if !w.Stored {
		c.Disk = 0
	}
	if c.Link == 0 && !w.Local || c.Disk == 0 && w.Stored {
		c.Link, c.Disk = 0, 0 // what is missing may be what takes longest
	}
	return c
}

// class is one of them. Its counters are of bodies about which there was something to decide.
type class struct {
	bodies, bytes, trials atomic.Int64
	measured              atomic.Bool // there were enough attempts
	// trying says that bodies are being tried, tried how many of them were.
	trying atomic.Bool
	tried  atomic.Int64
	// reason is the index in reasons of why its bodies are not compressed; 0: they are.
	reason atomic.Int32

	pipelined bool
	mu        sync.Mutex
	known     policy.Class
}

var reasons = [...]policy.Reason{"", policy.NetworkFaster, policy.CPUDearer, policy.DiskFaster}

// NewClasses returns a number of classes, of which pipelined says whether parts of a body travel while the next ones
// are compressed. A nil clock is that of the machine.
func NewClasses(n int, pipelined func(class int) bool, clock Clock) *Classes {
	if clock == nil {
		clock = system{}
	}
	c := &Classes{clock: clock, classes: make([]class, n), began: clock.CPU(), way: Way{Sends: 1}}
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
			k.forget()
		}
		c.look(k)
		k.mu.Unlock()
	}
}

// SetWay replaces what becomes of the bytes. It counts from the next look on.
func (c *Classes) SetWay(w Way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.way = w
}

// forget makes a class one of which nothing is known. Its mu is held.
func (k *class) forget() {
	k.known = policy.Class{}
	k.measured.Store(false)
}

// Forget has a class begin again, for bodies of another kind.
func (c *Classes) Forget(i int) {
	k := &c.classes[i]
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	k.reason.Store(0)
	k.reset()
}

// Decision is what to do with a body.
type Decision struct {
	// Reason is why it is sent as it is; empty: it is compressed.
	Reason policy.Reason
	// Measured says that Attempted is to be called. Where measuring is not for nothing, some need not be: of a class of
	// which enough is known one in several is.
	Measured bool
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
	if reason != "" && n%tryEvery < tryRun && c.tries(k, n%tryEvery == 0) {
		k.trials.Add(1)
		return Decision{Trial: true, Measured: true}
	}
	return Decision{Reason: reason, Measured: reason == "" && (n%measureEvery == 0 || !k.measured.Load())}
}

// tries reports whether a body is one of those that are tried: all of a run are if the first is.
func (c *Classes) tries(k *class, first bool) bool {
	if first {
		k.trying.Store(c.affordable())
		k.tried.Store(0)
	}
	return k.trying.Load()
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
	k := &c.classes[i]
	if trial {
		if c.tried.Add(int64(a.CPU * float64(time.Second))); k.tried.Add(1) <= tryCold {
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Observe(a)
	k.measured.Store(k.known.Known())
}

// look decides again about a class. Its mu is held.
func (c *Classes) look(k *class) {
	c.mu.Lock()
	carrier := c.way.carrier(c.now)
	c.mu.Unlock()
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

// Rested takes in for how long each of some bytes occupied the disk.
func (c *Classes) Rested(perByte float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disk.Observe(perByte)
	c.now.Disk = c.disk.Value()
}

// Carrier is what a byte takes each time it is sent, and where it rests, as far as it is known.
func (c *Classes) Carrier() policy.Carrier {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	now.Inflate = c.way.Inflate
	return now
}

// Value is what the objective makes of what data took whose parts do not travel while the next ones are compressed, by
// what is known now of their way.
func (c *Classes) Value(spent policy.Spent) float64 {
	c.mu.Lock()
	carrier := c.way.carrier(c.now)
	c.mu.Unlock()
	return c.serving.Load().Value(spent, carrier)
}

// Inflate is the CPU seconds for inflating a byte of plain data for those who read it.
func (c *Classes) Inflate(policy.Option) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.way.Inflate
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
		c.classes[i].reset()
	}
}

func (k *class) reset() {
	k.bodies.Store(0)
	k.bytes.Store(0)
	k.trials.Store(0)
}

// Bodies of a class about which there was something to decide, since the last reset.
func (c *Classes) Bodies(i int) int64 { return c.classes[i].bodies.Load() }
