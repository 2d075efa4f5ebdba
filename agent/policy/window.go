// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Window is what a sender saw while it sent some blocks, all its streams together. Times
// are in seconds, sizes in bytes. Figures that make no sense are ignored.
type Window struct {
	// Elapsed is its length by the clock, Streams how many sent side by side.
	Elapsed float64
	Streams int
	// Plain and Wire are the bytes before and after compression.
	Plain, Wire float64
	// CPU is that of the whole sender, Compress the part of it that took samples and
	// compressed.
	CPU, Compress float64
	// Worked is how long, by the clock, the streams were at preparing blocks, WorkedCPU
	// the CPU time they got meanwhile. What is missing others had.
	Worked, WorkedCPU float64
	// Writing is how long, by the clock, the streams were at handing blocks to the network.
	Writing float64

	// Carried says that the next three are known.
	Carried bool
	// Delivered is the bytes that the other end acknowledged.
	Delivered float64
	// Busy is how long the connections had something to send or to be acknowledged,
	// PeerFull how long of that the other end had no space for more; all streams together.
	Busy, PeerFull float64
	// Queueing is how much longer than at best acknowledgements took in the end, on average of the connections.
	Queueing float64
}

// Peer is what the other side said of itself since it last did.
type Peer struct {
	// Elapsed is how long ago that was, Streams how many connections it served.
	Elapsed float64
	Streams int
	// Plain and Wire are what was sent to it meanwhile.
	Plain, Wire float64
	// CPU is that of the whole receiver, Inflate the part of it that expanded Inflated
	// bytes; 0: not known.
	CPU, Inflate, Inflated float64
	// Busy is how long its streams were not waiting for data, all together.
	Busy float64
}

// limit is what holds a sender up.
type limit uint8

const (
	// bySender: nothing but its own work.
	bySender limit = iota
	byLink
	byPeer
	// unclear: by one of these two.
	unclear
)

const (
	// The streams wait for the network when they spend this share of their time in
	// writes that do nothing, and the connections are busy for this share of it. Writes of
	// a process that lacks CPU time take long too, but leave the connections idle.
	waiting, carrying = 0.25, 0.75
	// Buffers fill up when less than this share of what is sent is delivered.
	undelivered = 0.5
	// A peer that is the bottleneck and spends less than this share of what its cores have
	// waits for something else, such as its disk.
	peerWorks = 0.5
	// The peer is the bottleneck when this share of its time it does not wait for data, or,
	// before it said so, when this share of the time it has no space.
	peerBusy, peerFull = 0.75, 0.5
	// A peer that takes more than so many times as long as assumed has to say so itself.
	peerSlower = 8
	// Bytes that wait for so long on the way wait for the network: a peer that has no space acknowledges at once what
	// it has space for.
	queueing = 0.01
	// writeShare is the part of sendWire in all that sending costs besides compressing.
	writeShare = sendWire / (sendPlain + sendWire)

	// gain is how far one window moves what is known.
	gain = 0.25
	// What the network and the peer can do is forgotten after so many windows in which
	// they were not the bottleneck, to see whether they do more by now; twice as many each
	// time they do not.
	firstRecall, maxRecall = 128, 4096
	// sameAgain is how much more they must do then to be called changed.
	sameAgain = 1.25
	// A network that was not the bottleneck is taken to carry so many times as much at most, or assumedLink: that of
	// blocks which shrink a thousandfold says nothing of what sending them as they are would take.
	unproven = 64
	// maxLink is more than any network carries.
	maxLink = 1e15
	// After so many windows that the network held up, what it carries is no guess any more.
	settled = 3
)

// recall is a figure that is forgotten now and then.
type recall struct {
	idle, gap int
	forgotten float64
}

// bound notes that the figure was seen to be v.
func (r *recall) bound(v float64) {
	r.idle = 0
	if r.forgotten > 0 {
		if v < sameAgain*r.forgotten {
			r.gap = min(2*max(r.gap, firstRecall), maxRecall)
		} else {
			r.gap = firstRecall
		}
		r.forgotten = 0
	}
}

// free notes a window in which v was no bottleneck; it reports whether to forget it.
func (r *recall) free(v float64) bool {
	r.idle++
	if r.idle < max(r.gap, firstRecall) {
		return false
	}
	r.idle, r.forgotten = 0, v
	return true
}

// Window takes in what happened during the last blocks.
func (c *Controller) Window(w Window) {
	if !positive(w.Elapsed) || !positive(w.Plain) || !positive(w.Wire) || w.Streams < 1 {
		return
	}
	c.contention(w)
	if overhead := w.CPU - w.Compress; positive(overhead) {
		c.model.sendScale = c.sent.approach(c.model.sendScale, sound(overhead/c.model.sending(w.Plain, w.Wire), 0.05, 20))
		if c.received == 0 {
			// Until the peer has said something of itself it is taken to be like this machine, unless that is slower than
			// what is assumed: the first windows of a connection are.
			c.model.receiveScale = min(c.model.sendScale, 1)
		}
	}
	rate := w.Wire / w.Elapsed
	if w.Carried && positive(w.Delivered) {
		rate = min(rate, w.Delivered/w.Elapsed)
	}
	if limit := c.limit(w); limit != unclear {
		c.linkSeen(limit, rate)
		c.peerSeen(limit, w)
	}
}

// contention finds out how many cores the sender has.
func (c *Controller) contention(w Window) {
	if !positive(w.Worked) || !positive(w.WorkedCPU) {
		return
	}
	crowding := sound(w.Worked/w.WorkedCPU, 1, 64)
	c.crowding = approach(c.crowding, crowding)
	c.model.cores = max(float64(min(w.Streams, c.cores))/c.crowding, 1.0/64)
}

// limit says what held the sender up.
func (c *Controller) limit(w Window) limit {
	all := w.Elapsed * float64(w.Streams)
	idle := w.Writing - c.crowding*writeShare*max(w.CPU-w.Compress, 0)
	// Buffers that fill up make no stream wait, until they are full.
	filling := w.Carried && w.Delivered < undelivered*w.Wire
	if idle < waiting*all && !filling {
		return bySender
	}
	if !w.Carried {
		return byLink
	}
	if w.Busy < carrying*all {
		return bySender
	}
	if c.peerKnown && c.peerBusy < peerBusy {
		return byLink // however small its window is
	}
	if w.PeerFull < peerFull*w.Busy {
		return byLink
	}
	switch {
	case c.peerKnown || c.plausible(w):
		return byPeer
	case w.Queueing >= queueing:
		return byLink
	}
	return unclear
}

// plausible reports whether a peer that has said nothing of itself yet may be as slow as a window says. Its TCP window
// is small while a connection is young, which on a slow network is many blocks long.
func (c *Controller) plausible(w Window) bool {
	share := shareOf64(w.Wire, w.Plain)
	needs := c.model.takes(share, 0, c.inflates(share)).receive
	return w.Plain/w.Elapsed*needs*peerSlower >= float64(c.peerCores)
}

// linkSeen learns what the network carries.
func (c *Controller) linkSeen(l limit, rate float64) {
	m := &c.model
	switch {
	case l == byLink:
		c.linkRecall.bound(rate)
		c.linkBounds = min(c.linkBounds+1, settled)
		if !c.linkKnown || rate > 2*m.link || rate < m.link/2 {
			m.link = rate
		} else {
			m.link = approach(m.link, rate)
		}
		c.linkKnown = true
	case !c.linkKnown:
		c.forgetLink(rate) // it carries what it was given, and who knows how much more
	case rate > sameAgain*m.link && c.linkBounds < settled:
		// What a window or two took for all it carries, such as while the connection was young, was not.
		c.forgetLink(rate)
	case rate > m.link:
		m.link = rate
	case c.linkRecall.free(m.link):
		c.forgetLink(rate)
	}
}

// forgetLink goes on with what a network may carry that was not the bottleneck at a rate.
func (c *Controller) forgetLink(rate float64) {
	c.model.link = sound(unproven*rate, assumedLink, maxLink)
	c.linkKnown, c.linkBounds = false, 0
}

// peerSeen learns how fast the peer is.
func (c *Controller) peerSeen(l limit, w Window) {
	m := &c.model
	rate := w.Plain / w.Elapsed
	if l != byPeer {
		limited := m.peerCores < float64(c.peerCores) || m.peerRate > 0
		if limited && c.peerRecall.free(rate) {
			m.peerCores, m.peerRate = float64(c.peerCores), 0
		}
		return
	}
	c.peerRecall.bound(rate)
	if c.peerKnown && c.peerCPU < peerWorks {
		m.peerRate, m.peerCores = rate, float64(c.peerCores)
		return
	}
	share := shareOf64(w.Wire, w.Plain)
	needs := m.takes(share, 0, c.inflates(share)).receive
	m.peerCores = approach(m.peerCores, sound(rate*needs, 1.0/64, float64(c.peerCores)))
}

// inflates returns the CPU seconds to inflate a byte of data that compresses to a share,
// by the way that is usual for it.
func (c *Controller) inflates(share float64) float64 {
	if i := c.buckets[bucketOf(share)].current; i >= 0 {
		return 1 / c.ways[i].InflateRate
	}
	return 0
}

// Peer takes in what the other side says of itself.
func (c *Controller) Peer(p Peer) {
	if !positive(p.Elapsed) || p.Streams < 1 {
		return
	}
	share := shareOf64(p.Wire, p.Plain)
	if p.Busy >= 0 {
		c.peerCPU = 1
		if positive(p.CPU) {
			c.peerCPU = sound(p.CPU/(p.Elapsed*float64(c.peerCores)), 0, 1)
		}
		first := !c.peerKnown
		c.peerKnown, c.peerBusy = true, sound(p.Busy/(p.Elapsed*float64(p.Streams)), 0, 1)
		if first && c.peerBusy >= peerBusy {
			c.forgetLink(p.Wire / p.Elapsed) // it may have been the peer all the time
		}
		if c.peerBusy < peerBusy {
			// It could have done more, at least by as much as it waited.
			c.model.peerRate = 0
			did := p.Plain / p.Elapsed * c.model.takes(share, 0, c.inflates(share)).receive
			c.model.peerCores = min(max(c.model.peerCores, sound(did/c.peerBusy, 0, 1e6)), float64(c.peerCores))
		}
	}
	if overhead := p.CPU - p.Inflate; positive(overhead) && positive(p.Plain) && positive(p.Wire) {
		c.model.receiveScale = c.received.approach(
			c.model.receiveScale, sound(overhead/c.model.receiving(p.Plain, p.Wire), 0.05, 20),
		)
	}
	if positive(p.Inflate) && positive(p.Inflated) {
		if usual := c.inflates(share); usual > 0 {
			c.model.inflateScale = c.inflated.approach(c.model.inflateScale, sound(p.Inflate/p.Inflated/usual, 0.1, 10))
		}
	}
}

// approach moves a figure towards what was seen.
func approach(f, seen float64) float64 { return f + gain*(seen-f) }

// learned counts how often a figure was seen.
type learned int

// approach is approach for a figure that was only assumed at first: what is seen then replaces it, and once more what
// is seen next, because a connection's first bytes pay for its beginning, too.
func (l *learned) approach(f, seen float64) float64 {
	*l = min(*l+1, 1/gain+1)
	return f + max(1/max(float64(*l-1), 1), gain)*(seen-f)
}
