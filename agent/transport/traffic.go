// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Traffic is what the kernel says arrived on connections.
type Traffic struct {
	// Segments arrived with data, Acknowledgements without.
	Segments, Acknowledgements uint64
	// Bytes of data that arrived.
	Bytes uint64
}

func (t Traffic) plus(o Traffic) Traffic {
	return Traffic{t.Segments + o.Segments, t.Acknowledgements + o.Acknowledgements, t.Bytes + o.Bytes}
}

// Wire is what a report says of it; nil where the kernel counted nothing.
func (t Traffic) Wire() *wirev1.Traffic {
	if t == (Traffic{}) {
		return nil
	}
	return &wirev1.Traffic{
		DataSegments: t.Segments, Acknowledgements: t.Acknowledgements, ReceivedBytes: t.Bytes,
	}
}

// Traffic returns what arrived so far on connections that are counted, also on those that are closed. The kernel's
// counters of segments have 32 bits: of a connection on which more arrive from one call to the next, some are missed.
func (c *Counter) Traffic() Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.closed
	for conn := range c.open {
		all = all.plus(conn.read())
	}
	return all
}

// watch notes that a connection is open.
func (c *Counter) watch(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*countedConn]struct{}{}
	}
	c.open[conn] = struct{}{}
}

// end adds a connection that is about to be closed to those that are.
func (c *Counter) end(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[conn]; open {
		delete(c.open, conn)
		c.closed = c.closed.plus(conn.read())
	}
}

// read returns what arrived on a connection: what was known where it is not TCP, or closed. The counter's mu is held.
func (c *countedConn) read() Traffic {
	if info, err := tcpInfo(c.Conn); err == nil {
		c.seen.add(info.Segs_in, info.Data_segs_in, info.Bytes_received)
	}
	return c.seen.traffic()
}

// arrivals counts on what the kernel counts with 32 bits.
type arrivals struct{ segments, data, bytes uint64 }

func (a *arrivals) add(segments, data uint32, bytes uint64) {
	a.segments += uint64(segments - uint32(a.segments))
	a.data += uint64(data - uint32(a.data))
	a.bytes = bytes
}

// traffic of a connection. A segment may arrive while the kernel answers, and count as one with data only.
func (a *arrivals) traffic() Traffic {
	return Traffic{Segments: a.data, Acknowledgements: a.segments - min(a.data, a.segments), Bytes: a.bytes}
}

func (c *countedConn) Close() error {
	c.counter.end(c)
	return c.Conn.Close()
}

// count returns a connection that is counted; as it is where the counter is nil.
func (c *Counter) count(conn net.Conn) net.Conn {
	if c == nil {
		return conn
	}
	counted := &countedConn{Conn: conn, counter: c}
	c.watch(counted)
	return counted
}
