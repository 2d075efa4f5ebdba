// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net"
	"syscall"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Traffic is what the kernel says arrived on connections.
type Traffic struct {
	// Segments arrived with data, Acknowledgements without.
	Segments, Acknowledgements uint64
	// Bytes of data that arrived.
	Bytes uint64
}

// Plus returns the sum of both.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{t.Segments + o.Segments, t.Acknowledgements + o.Acknowledgements, t.Bytes + o.Bytes}
}

// Minus returns what arrived since o was taken.
func (t Traffic) Minus(o Traffic) Traffic {
	return Traffic{t.Segments - o.Segments, t.Acknowledgements - o.Acknowledgements, t.Bytes - o.Bytes}
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
		all = all.Plus(conn.read())
	}
	return all
}

// Counted is what a counter has counted.
type Counted struct {
	// Wire bytes were read and written, TLS included.
	Wire    int64
	Traffic Traffic
}

// Minus returns what was counted since o was taken.
func (t Counted) Minus(o Counted) Counted {
	return Counted{t.Wire - o.Wire, t.Traffic.Minus(o.Traffic)}
}

// Plus adds up two counts.
func (t Counted) Plus(o Counted) Counted { return Counted{t.Wire + o.Wire, t.Traffic.Plus(o.Traffic)} }

// Counted returns Bytes and Traffic.
func (c *Counter) Counted() Counted { return Counted{c.Bytes(), c.Traffic()} }

// watch notes that a connection is open.
func (c *Counter) watch(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*countedConn]struct{}{}
	}
	c.open[conn] = struct{}{}
}

// take is watch for a connection of which the counter before has counted what arrived so far.
func (c *Counter) take(conn *countedConn) {
	c.watch(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = c.closed.Minus(conn.seen.traffic())
}

// end adds a connection that is about to be closed to those that are.
func (c *Counter) end(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[conn]; open {
		delete(c.open, conn)
		c.closed = c.closed.Plus(conn.read())
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
	c.counter.Load().end(c)
	return c.Conn.Close()
}

// CloseWrite ends what is sent; all of it where the connection cannot be closed by half.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// SyscallConn implements syscall.Conn.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Count returns a connection that is counted; as it is where the counter is nil.
func (c *Counter) Count(conn net.Conn) net.Conn {
	if c == nil {
		return conn
	}
	counted := &countedConn{Conn: conn}
	counted.counter.Store(c)
	c.watch(counted)
	return counted
}
