// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net"
	"sync/atomic"
)

// Counter counts the bytes of connections in both directions. The zero value is ready; it is safe for concurrent use.
type Counter struct{ bytes atomic.Int64 }

// Bytes returns how many bytes were read and written so far, TLS included.
func (c *Counter) Bytes() int64 { return c.bytes.Load() }

func (c *Counter) add(n int) {
	if c != nil {
		c.bytes.Add(int64(n))
	}
}

type countedConn struct {
	net.Conn
	counter *Counter
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counter.add(n)
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counter.add(n)
	return n, err
}

// Listen returns a listener whose connections are counted, unless c is nil, and of which at most limit are open at once.
func Listen(l net.Listener, c *Counter, limit int) net.Listener {
	return &countedListener{Listener: l, counter: c, free: make(chan struct{}, limit), closed: make(chan struct{})}
}

type countedListener struct {
	net.Listener
	counter *Counter
	free    chan struct{}
	closing atomic.Bool
	closed  chan struct{}
}

func (l *countedListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &acceptedConn{countedConn: countedConn{conn, l.counter}, free: l.free}, nil
}

func (l *countedListener) Close() error {
	if l.closing.CompareAndSwap(false, true) {
		close(l.closed)
	}
	return l.Listener.Close()
}

type acceptedConn struct {
	countedConn
	free     chan struct{}
	released atomic.Bool
}

func (c *acceptedConn) Close() error {
	err := c.Conn.Close()
	if c.released.CompareAndSwap(false, true) {
		<-c.free
	}
	return err
}
