// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"net"
	"sync"
)

// localBacklog is how many connections may wait to be accepted by the server in this process.
const localBacklog = 64

// serveLocal hands the connection to the local listener.
func (s *Server) serveLocal(conn *net.TCPConn, hello []byte) (result string) {
	s.mu.Lock()
	room := s.locals < s.limits.LocalConnections
	if room {
		s.locals++
	}
	s.mu.Unlock()
	if !room {
		return resultTooMany
	}
	open := s.metrics.open.WithLabelValues("local")
	open.Inc()
	release := sync.OnceFunc(func() {
		open.Dec()
		s.mu.Lock()
		s.locals--
		s.mu.Unlock()
	})
	// The embedded Conn is the interface alone: io.Copy must not find ways round Read.
	replayed := &replayConn{Conn: conn, replay: hello, release: sync.OnceFunc(func() { release(); s.leave() })}
	if !s.local.put(replayed) {
		release()
		return resultTooMany
	}
	return resultLocal
}

// replayConn gives out what was read of a connection before it reads on.
type replayConn struct {
	net.Conn
	replay  []byte
	release func()
}

// Read is not safe for concurrent use, as with any reader of a stream.
func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.replay) > 0 {
		n := copy(p, c.replay)
		c.replay = c.replay[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close may be called more than once.
func (c *replayConn) Close() error {
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

func newLocalListener() *localListener {
	return &localListener{conns: make(chan net.Conn, localBacklog), done: make(chan struct{}), address: &net.TCPAddr{}}
}

func (l *localListener) setAddress(address net.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = address
}

// put reports false when the listener is closed or too many wait.
func (l *localListener) put(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.conns <- conn:
		return true
	default:
		return false
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
