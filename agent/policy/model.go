// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// What moving bytes costs besides compressing them, in CPU seconds for each byte of
// plain data and of wire data: reading, digests, TLS and sockets on this side; sockets,
// TLS, digests and writing on the other. Measured between two agents on one machine;
// they only matter until the first windows have been seen, which scale them.
const (
	sendPlain, sendWire       = 0.30e-9, 0.75e-9
	receivePlain, receiveWire = 0.90e-9, 1.10e-9
)

const (
	// On a network that is slower than the hosts every packet wakes both sides up. That is
	// wakeWire CPU seconds for each byte on the slowest networks, half of it on each side,
	// and half as much where wakeLink bytes a second are carried.
	wakeWire, wakeLink = 20e-9, 6e6
	// slowLink is what the network is taken to carry until the first window was seen where
	// CPU time is the objective: then it is what waking up costs that decides, and a block that was
	// compressed for nothing costs less than one that was not and should have been.
	slowLink = 3e6
	// assumedLink is what the network is taken to carry in bytes a second until the
	// first window was seen. It makes the first blocks compressed and cheaply so, whether
	// the network proves slow or fast.
	assumedLink = 125e6
	// overlap is how much of what is not the bottleneck adds to the time all the same:
	// the stages of a pipeline never overlap completely. It also decides between options
	// that the bottleneck takes alike.
	overlap = 0.02
	// bytesTie decides between options that make about as many bytes: a nanosecond of CPU
	// time for each byte of plain data counts like so many bytes on the wire.
	bytesTie = 2e-5
)

// model is what is known of machine, network and peer.
type model struct {
	objective Objective
	// prices of a second of CPU time and of a byte on the wire
	second, byte float64

	// cores and peerCores are how many this side and the peer have for the work, as far
	// as others leave them.
	cores, peerCores float64
	// link is what the network carries in bytes a second; 0: it never was the bottleneck.
	link float64
	// limit is what the sender may send at most, 0: what it likes.
	limit float64
	// peerRate is how many bytes of plain data a second the peer takes however they come, as
	// a disk does; 0: that never was the bottleneck.
	peerRate float64
	// sendScale, receiveScale and inflateScale are true by assumed costs.
	sendScale, receiveScale, inflateScale float64
}

func newModel(objective Objective, prices Prices, cores, peerCores int) model {
	m := model{
		objective: objective, cores: float64(max(cores, 1)), peerCores: float64(max(peerCores, 1)), link: assumedLink,
		sendScale: 1, receiveScale: 1, inflateScale: 1,
	}
	if objective == CPU {
		m.link = slowLink
	}
	if positive(prices.CPUHour) {
		m.second = prices.CPUHour / 3600
	}
	if positive(prices.NetworkGiB) {
		m.byte = prices.NetworkGiB / (1 << 30)
	}
	switch objective {
	case CPU, Bytes, Elapsed:
	case Cost:
		if !prices.usable() {
			m.objective = Elapsed // nothing costs anything
		}
	default:
		m.objective = Elapsed
	}
	return m
}

// work is what a byte of plain data takes: bytes on the wire and CPU seconds here and at
// the peer.
type work struct{ wire, send, receive float64 }

// takes returns the work of a byte that is compressed in so many CPU seconds to so many
// bytes and inflated in so many CPU seconds.
func (m *model) takes(wire, compress, inflate float64) work {
	return work{
		wire:    wire,
		send:    compress + m.sendScale*m.sending(1, wire),
		receive: m.inflateScale*inflate + m.receiveScale*m.receiving(1, wire),
	}
}

// sending and receiving return the CPU seconds that bytes take besides compressing and inflating, as far as is assumed.
func (m *model) sending(plain, wire float64) float64 {
	return plain*sendPlain + wire*(sendWire+m.waking()/2)
}

func (m *model) receiving(plain, wire float64) float64 {
	return plain*receivePlain + wire*(receiveWire+m.waking()/2)
}

// waking returns the CPU seconds that a byte on the wire takes because hosts wait for it.
func (m *model) waking() float64 {
	link := m.link
	if m.limit > 0 && (link == 0 || m.limit < link) {
		link = m.limit
	}
	if link == 0 {
		return 0
	}
	return wakeWire / (1 + link/wakeLink)
}

// seconds returns how long a byte of plain data takes when many follow each other.
func (m *model) seconds(w work) float64 {
	send, carry, receive := w.send/m.cores, 0.0, w.receive/m.peerCores
	if m.link > 0 {
		carry = w.wire / m.link
	}
	if m.limit > 0 {
		carry = max(carry, w.wire/m.limit)
	}
	if m.peerRate > 0 {
		receive = max(receive, 1/m.peerRate)
	}
	return max(send, carry, receive) + overlap*(send+carry+receive)
}

// value is what the objective makes of work: less is better.
func (m *model) value(w work) float64 {
	switch m.objective {
	case Cost:
		return m.second*(w.send+w.receive) + m.byte*w.wire
	case CPU:
		return w.send + w.receive
	case Bytes:
		return w.wire + bytesTie*1e9*(w.send+w.receive)
	default:
		return m.seconds(w)
	}
}
