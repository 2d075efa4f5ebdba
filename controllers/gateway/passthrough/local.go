// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// unknownBytes is what a client may send before it is authenticated: a ClientHello, a few certificates and one request
// fit.
const unknownBytes = 64 << 10

// errUnknownBytes ends a connection.
var errUnknownBytes = errors.New("the client sent too much before it was authenticated")

// serveLocal hands the connection to the local listener, as one of an unknown client.
func (s *Server) serveLocal(conn *net.TCPConn, hello []byte) (result string) {
	open := s.metrics.open.WithLabelValues("local")
	open.Inc()
	c := &LocalConn{Conn: conn, server: s, replay: hello, budget: unknownBytes - len(hello)}
	c.release = sync.OnceFunc(func() {
		open.Dec()
		c.leave()
	})
	c.unknown = s.unknown.add(c.evict, s.bySource(conn))
	if !s.local.put(c) {
		c.release()
		return resultTooMany
	}
	return resultLocal
}

// Owner is who an authenticated client belongs to.
type Owner struct {
	// Name of the owner; Part of it, such as a namespace.
	Name, Part string
}

// LocalConn is what Server.Local gives out: a connection of which nothing was read. Its client is unknown until
// Authenticated is called, and the connection may be evicted at any time, sooner before that than after.
type LocalConn struct {
	// Conn is the interface alone: io.Copy must not find ways round Read.
	net.Conn
	server  *Server
	release func()

	// replay is what was read of the connection before, and is to be read again. budget is what may be read of an
	// unknown client.
	replay []byte
	budget int
	// authenticated is true when the budget does not count any more.
	authenticated atomic.Bool

	mu      sync.Mutex
	unknown *pooled
	// known is nil for an unknown client.
	known  *pooled
	closed bool
}

// Authenticated says that the client was authenticated, and whose it is. A connection has one owner: later calls
// change nothing. It reports false if the connection was evicted, or closed, before.
func (c *LocalConn) Authenticated(owner Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.known != nil {
		return true
	}
	if !c.server.unknown.done(c.unknown) {
		return false
	}
	c.known = c.server.known.add(c.evict,
		group{
			key: owner.Name, limit: c.server.limits.LocalConnectionsPerOwner,
		}, group{key: owner, limit: c.server.limits.LocalConnectionsPerPart})
	c.authenticated.Store(true)
	return true
}

// Use marks the connection as used until the function that it returns is called: others are evicted before it.
func (c *LocalConn) Use() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		return func() {}
	}
	return c.server.known.use(c.known)
}

// evict is called with a pool locked, so it leaves the rest to Close, which whoever reads from the connection calls.
func (c *LocalConn) evict() {
	c.server.metrics.count(resultEvicted)
	_ = c.Conn.Close()
}

// leave takes the connection out of its pool.
func (c *LocalConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.server.unknown.done(c.unknown)
	if c.known != nil {
		c.server.known.done(c.known)
	}
}

// Read is not safe for concurrent use, as with any reader of a stream.
func (c *LocalConn) Read(p []byte) (int, error) {
	if len(c.replay) > 0 {
		n := copy(p, c.replay)
		c.replay = c.replay[n:]
		return n, nil
	}
	if c.authenticated.Load() {
		return c.Conn.Read(p)
	}
	if c.budget <= 0 {
		return 0, errUnknownBytes
	}
	n, err := c.Conn.Read(p[:min(len(p), c.budget)])
	c.budget -= n
	return n, err
}

// Close may be called more than once.
func (c *LocalConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// localListener is a net.Listener that is fed by the Server.
type localListener struct {
	conns chan net.Conn
	done  chan struct{}

	mu      sync.Mutex
	closed  bool
	address net.Addr
}

// newLocalListener returns one in which so many connections may wait to be accepted.
func newLocalListener(backlog int) *localListener {
	return &localListener{conns: make(chan net.Conn, backlog), done: make(chan struct{}), address: &net.TCPAddr{}}
}

func (l *localListener) setAddress(address net.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = address
}

// put reports false when the listener is closed. Where too many wait, it closes the one that has waited longest.
func (l *localListener) put(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	for {
		select {
		case l.conns <- conn:
			return true
		default:
		}
		select {
		case oldest := <-l.conns:
			_ = oldest.Close()
		default:
		}
	}
}

// Accept is of net.Listener.
func (l *localListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close is of net.Listener. Connections that nobody accepted are closed.
func (l *localListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	for {
		select {
		case conn := <-l.conns:
			_ = conn.Close()
		default:
			return nil
		}
	}
}

// Addr is of net.Listener.
func (l *localListener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}
