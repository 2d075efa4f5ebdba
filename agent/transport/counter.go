// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// Counter counts the bytes of connections in both directions. The zero value is ready; it is safe for concurrent use.
type Counter struct {
	bytes atomic.Int64

	mu     sync.Mutex
	open   map[*countedConn]struct{}
	closed Traffic // of connections that are not open any more
}

// Bytes returns how many bytes were read and written so far, TLS included.
func (c *Counter) Bytes() int64 { return c.bytes.Load() }

type countedConn struct {
	net.Conn
	counter atomic.Pointer[Counter]
	seen    arrivals // guarded by the counter's mu
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counter.Load().bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counter.Load().bytes.Add(int64(n))
	return n, err
}

// recount has a connection that Listen accepted counted by another counter from now on. It must not be closed
// meanwhile.
func recount(conn net.Conn, by *Counter) {
	accepted, ok := conn.(*acceptedConn)
	if !ok || by == nil {
		return
	}
	if counted, ok := accepted.Conn.(*countedConn); ok {
		counted.counter.Load().end(counted)
		by.take(counted)
		counted.counter.Store(by)
	}
}

// Listen returns a listener whose connections are counted, unless c is nil, and of which at most limit are open at
// once. Further ones wait, one of them accepted already, unless there are some that have said nothing yet: then each
// one more closes the oldest of these, so that those who connect and say nothing keep nobody out.
func Listen(l net.Listener, c *Counter, limit int) net.Listener {
	listener := &countedListener{Listener: l, counter: c, limit: limit}
	listener.changed.L = &listener.mu
	return listener
}

type countedListener struct {
	net.Listener
	counter *Counter
	limit   int

	mu      sync.Mutex
	changed sync.Cond // of mu
	closed  bool
	open    int
	silent  list.List // of *acceptedConn, oldest first
}

func (l *countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := l.admit(conn)
	if accepted == nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return accepted, nil
}

// admit waits until there is space for a connection, or makes it. It returns nil once the listener is closed.
func (l *countedListener) admit(conn net.Conn) *acceptedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.open >= l.limit && l.silent.Len() == 0 {
		l.changed.Wait()
	}
	if l.closed {
		return nil
	}
	if l.open >= l.limit {
		evicted := l.silent.Front().Value.(*acceptedConn)
		l.release(evicted)
		_ = evicted.Conn.Close()
	}
	c := &acceptedConn{Conn: l.counter.Count(conn), listener: l, open: true}
	c.silent = l.silent.PushBack(c)
	l.open++
	return c
}

// release gives the space of a connection to others, once. mu is held.
func (l *countedListener) release(c *acceptedConn) {
	if !c.open {
		return
	}
	c.open = false
	l.heard(c)
	l.open--
	l.changed.Signal()
}

// heard notes that a connection is not silent any more. mu is held.
func (l *countedListener) heard(c *acceptedConn) {
	if c.silent != nil {
		l.silent.Remove(c.silent)
		c.silent = nil
	}
}

func (l *countedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

type acceptedConn struct {
	net.Conn
	listener *countedListener
	spoke    atomic.Bool
	// Guarded by the listener's mu.
	open   bool
	silent *list.Element // nil once it has spoken or is closed
}

func (c *acceptedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.spoke.CompareAndSwap(false, true) {
		c.listener.mu.Lock()
		c.listener.heard(c)
		c.listener.mu.Unlock()
	}
	return n, err
}

func (c *acceptedConn) Close() error {
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.release(c)
	return err
}
