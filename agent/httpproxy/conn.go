// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a client's connection, below TLS.
type conn struct {
	net.Conn
	server     *Server
	generation *generation
	stall      time.Duration
	from       peer

	requests atomic.Int64
	closed   atomic.Bool
	written  atomic.Int64 // when the deadline for writing was set last, since epoch; 0: never
	patience readDeadline
	// link is nil where what the connection carries is not used in any decision.
	link *link

	mu sync.Mutex
	// cork holds what was written since corked; nil when writes go through.
	cork *buffer
	held int
}

// corked collects what is written meanwhile, which is to be about n bytes of a body and
// perhaps a header, so that an answer which HTTP and TLS write in pieces is sent by one
// call of the system, as far as there is memory.
func (c *conn) corked(n int, write func() error) error {
	b := c.server.buffers.get(min(n+n/corkShare+corkHeader, corkSize))
	c.mu.Lock()
	c.cork = b
	c.mu.Unlock()
	err := write()
	if b == nil {
		return err
	}
	c.mu.Lock()
	flushed := c.flush()
	c.cork = nil
	c.mu.Unlock()
	c.server.buffers.put(b)
	return errors.Join(err, flushed)
}

const (
	// corkSize is how much is collected at most, in bytes: a part of a body that is passed
	// on, in records of TLS.
	corkSize = 128 << 10
	// Records of TLS make a body longer by this part of it at most, and a header that is
	// not unusual takes so many bytes. What does not fit takes another call.
	corkShare  = 128
	corkHeader = 1 << 10
)

// flush sends what was collected.
func (c *conn) flush() error {
	if c.held == 0 {
		return nil
	}
	n := c.held
	c.held = 0
	_, err := c.send(c.cork.b[:n])
	return err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cork == nil {
		return c.send(p)
	}
	if len(p) > len(c.cork.b)-c.held {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(p) > len(c.cork.b) {
			return c.send(p)
		}
	}
	c.held += copy(c.cork.b[c.held:], p)
	return len(p), nil
}

// epoch is long enough ago for no stall to last since then. Times are told from it, because it does not move when
// somebody sets the clock.
var epoch = time.Now().Add(-365 * 24 * time.Hour)

// send sends bytes. A client that takes nothing for too long loses the connection, and
// with it what is held for it.
func (c *conn) send(p []byte) (int, error) {
	// Setting a deadline takes longer than looking at the clock.
	if now := time.Since(epoch); int64(now)-c.written.Load() > int64(c.stall/8) {
		c.written.Store(int64(now))
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return 0, err
		}
	}
	n, err := c.write(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.server.stats.timedOut.Add(1)
	}
	return n, err
}

// write is that of the connection below.
func (c *conn) write(p []byte) (int, error) {
	if c.link == nil {
		return c.Conn.Write(p)
	}
	begun := time.Now()
	n, err := c.Conn.Write(p)
	c.link.written(n, time.Since(begun))
	return n, err
}

// SetDeadline implements net.Conn. Those for writing are Write's own; one that has
// passed is for ever.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return nil // Write's own holds
	}
	c.written.Store(int64(time.Since(epoch)))
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite ends what is sent, for protocols that were switched to.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if !c.closed.Load() {
		c.link.look(c.requests.Load(), true)
	}
	err := c.Conn.Close()
	if c.closed.CompareAndSwap(false, true) {
		c.server.stats.closed()
		c.generation.leave()
	}
	return err
}
