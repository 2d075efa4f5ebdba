// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Serving says by what to weigh whether bodies and messages are compressed that others wait for.
type Serving struct {
	// Objective is what to minimise. Cost without a usable price is Elapsed, and so is what has no meaning.
	Objective Objective
	Prices    Prices
}

// Effective is the objective that is minimised.
func (s Serving) Effective() Objective {
	switch s.Objective {
	case CPU, Bytes:
		return s.Objective
	case Cost:
		if s.Prices.usable() {
			return Cost
		}
	}
	return Elapsed
}

// Carrier is what a byte takes after it was compressed, or was not.
type Carrier struct {
	// Send is the CPU seconds for encrypting it and handing it to the network.
	Send float64
	// Link is the seconds for which it occupies the network, Disk those for which it occupies the disks that keep it. Of
	// bodies and messages that neither carries, or where it is not known yet, both are 0.
	Link, Disk float64
	// Inflate is the CPU seconds for inflating a byte of plain data for those here who read it.
	Inflate float64
	// Unpriced says that nobody pays for its bytes by the price of the network.
	Unpriced bool
}

// known reports whether it is known how long a byte is on its way.
func (c Carrier) known() bool { return c.Link+c.Disk > 0 }

// Attempt is what became of a body or message that was to be compressed, or of several. It counts also where it was
// found not to shrink, and travels as it is.
type Attempt struct {
	// Plain and Wire are bytes before and after.
	Plain, Wire float64
	// CPU is the seconds that samples and compressing took, Elapsed how long that was by the clock, waits for a
	// processor included. Of several that are compressed at the same time it is a share of that.
	CPU, Elapsed float64
}

// Weighed is what a byte of plain data takes by the objective, compressed and as it is: less is better. Which of the
// two is compared with the other only.
type Weighed struct{ Compressed, AsIs float64 }

// Weigh compares attempts with sending the same bytes as they are. Pipelined says that parts travel while the next
// ones are compressed and those before are inflated.
func (s Serving) Weigh(a Attempt, c Carrier, pipelined bool) Weighed {
	if !positive(a.Plain) {
		return Weighed{}
	}
	wire, cpu, elapsed := sound(a.Wire/a.Plain, 0, 2), a.CPU/a.Plain, a.Elapsed/a.Plain
	return Weighed{s.value(wire, cpu, elapsed, c.Inflate, c, pipelined), s.value(1, 0, 0, 0, c, pipelined)}
}

// value is what a byte of plain data takes by the objective that becomes so many bytes in so much CPU time, and so long
// by the clock, and takes so much CPU time to inflate.
func (s Serving) value(wire, cpu, elapsed, inflate float64, c Carrier, pipelined bool) float64 {
	m := newModel(s.Effective(), s.Prices, 1, 1)
	switch m.objective {
	case Bytes:
		return wire
	case CPU:
		return cpu + inflate + wire*c.Send
	case Cost:
		if c.Unpriced {
			m.byte = 0
		}
		return m.second*(cpu+inflate+wire*c.Send) + m.byte*wire
	}
	carried := wire * (c.Send + c.Link + c.Disk)
	all := elapsed + carried + inflate
	if !pipelined {
		return all
	}
	slowest := max(elapsed, carried, inflate)
	return slowest + overlap*(all-slowest)
}

const (
	// So many attempts are made of a class of bodies or messages before anything but compressing them is chosen.
	classAttempts = 16
	// Attempts before the last of them or so are forgotten.
	classMemory = 32
	// What is done changes when the other is this share better.
	classMargin = 0.1
)

// Class is what is known of bodies or messages that are alike in size and content, and what is done with them: at
// first they are compressed. What it does depends on nothing but the calls made to it. It is not safe for concurrent
// use. The zero value has seen nothing.
type Class struct {
	recent   Attempt
	attempts int
	asIs     bool
	reason   Reason
	against  int
	retry    retry
	weighed  Weighed
}

// Observe takes in an attempt.
func (k *Class) Observe(a Attempt) {
	if !positive(a.Plain) || !(a.Wire >= 0) || !(a.CPU >= 0) || !(a.Elapsed >= 0) { // not a number, among others
		return
	}
	const keep = 1 - 1.0/classMemory
	k.recent = Attempt{
		Plain: keep*k.recent.Plain + a.Plain, Wire: keep*k.recent.Wire + a.Wire,
		CPU: keep*k.recent.CPU + a.CPU, Elapsed: keep*k.recent.Elapsed + a.Elapsed,
	}
	k.attempts = min(k.attempts+1, classAttempts)
}

// Look decides again what is done from now on.
func (k *Class) Look(s Serving, c Carrier, pipelined bool) {
	objective := s.Effective()
	if k.attempts < classAttempts || objective == Elapsed && !c.known() {
		return // what is not known yet does not change what is done
	}
	k.weighed = s.Weigh(k.recent, c, pipelined)
	is, other := k.weighed.Compressed, k.weighed.AsIs
	if k.asIs {
		is, other = other, is
	}
	k.retry.kept++
	if !(other < (1-classMargin)*is) {
		k.against = 0
	} else if k.against++; k.against >= k.retry.confirm(s, is) {
		k.retry.change(s, is)
		k.asIs, k.against = !k.asIs, 0
	}
	if k.reason = ""; k.asIs {
		k.reason = s.against(k.recent, c, pipelined)
	}
}

// against says why bodies or messages are not compressed.
func (s Serving) against(a Attempt, c Carrier, pipelined bool) Reason {
	if s.Effective() != Elapsed {
		return CPUDearer
	}
	a.Elapsed = a.CPU
	if w := s.Weigh(a, c, pipelined); w.Compressed < (1-classMargin)*w.AsIs {
		return CPUDearer // with cores that others keep busy it would be quicker
	}
	if c.Disk > c.Link {
		return DiskFaster
	}
	return NetworkFaster
}

// Reason is why the class is not compressed; empty: it is.
func (k *Class) Reason() Reason { return k.reason }

// Known reports whether there were enough attempts to choose anything but compressing.
func (k *Class) Known() bool { return k.attempts >= classAttempts }

// Recent is the sum of the last attempts, older ones counting less.
func (k *Class) Recent() Attempt { return k.recent }

// Weighed is what the last look compared; zero before the first.
func (k *Class) Weighed() Weighed { return k.weighed }

// SendCost learns what a byte takes to be handed to the network, from how long that took for bodies of several lengths:
// each takes a fixed time besides, which compressing does not save. The zero value knows what is usual.
type SendCost struct {
	n, x, y, xx, xy float64 // sums of one, bytes and seconds and their products, older ones counting less
	slope           float64
}

const (
	sendMemory = 256
	// The usual fixed time of a call in seconds, and how often two usual calls are taken to have been seen at first.
	usualCall = 5e-6
	usualSeen = 4
	// The least and the most that a byte takes.
	leastSend, mostSend = 0.05e-9, 100e-9
	// Lengths that differ by a smaller share say nothing.
	leastSpread = 0.1
)

// Observe takes in that so many bytes took so many CPU seconds.
func (c *SendCost) Observe(bytes, seconds float64) {
	if !positive(bytes) || !positive(seconds) {
		return
	}
	if c.n == 0 {
		for _, usual := range []float64{1 << 10, 64 << 10} {
			c.add(usualSeen, usual, usualCall+usual*sendWire)
		}
	}
	const keep = 1 - 1.0/sendMemory
	c.n, c.x, c.y, c.xx, c.xy = keep*c.n, keep*c.x, keep*c.y, keep*c.xx, keep*c.xy
	c.add(1, bytes, seconds)
	mean := c.x / c.n
	if spread := c.xx/c.n - mean*mean; spread > leastSpread*leastSpread*mean*mean {
		c.slope = sound((c.xy/c.n-mean*c.y/c.n)/spread, leastSend, mostSend)
	}
}

func (c *SendCost) add(weight, bytes, seconds float64) {
	c.n += weight
	c.x += weight * bytes
	c.y += weight * seconds
	c.xx += weight * bytes * bytes
	c.xy += weight * bytes * seconds
}

// PerByte is in CPU seconds.
func (c *SendCost) PerByte() float64 {
	if c.slope == 0 {
		return sendWire
	}
	return c.slope
}
