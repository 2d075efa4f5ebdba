// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// handshakeBytes is more than a target sends to a client before it has authenticated it: its part of a TLS
	// handshake, with a certificate and two of intermediate CAs, and an alert.
	handshakeBytes = 8 << 10
	// handshakeTime is longer than a target keeps a client that it has not authenticated.
	handshakeTime = 30 * time.Second
)

// fromSource is the key of the connections from one source to one target.
type fromSource struct {
	target string
	source netip.Prefix
}

// pass joins the connection to its target and returns when both have ended.
func (s *Server) pass(ctx context.Context, conn *net.TCPConn, w wanted) (result string) {
	session := &passed{client: conn}
	s.register(w.target.Key, session)
	defer s.unregister(w.target.Key, session)
	perTarget := s.limits.ConnectionsPerTarget
	entry := s.unproven.add(func() { s.evictSession(session) },
		group{key: w.target.Key, limit: perTarget},
		group{key: fromSource{w.target.Key, sourceOf(conn.RemoteAddr())}, limit: max(1, perTarget*3/4)})
	defer s.unproven.done(entry)
	// A target that went away before it was registered would not have been closed with the others of its key.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if again, ok := s.options.Lookup(ended, w.serverName); !ok || again != w.target {
		return resultTargetWithdraw
	}
	if err := s.connect(ctx, session, w.target, w.hello); err != nil {
		if s.wasEvicted(session) {
			return resultEvicted
		}
		s.log.Error(err, "Connection could not be passed through", "serverName", w.serverName, "target", w.target.Address)
		return resultUnreachable
	}
	s.metrics.count(resultPassed)
	open := s.metrics.open.WithLabelValues("passed")
	open.Inc()
	defer open.Dec()
	end := time.AfterFunc(s.limits.Lifetime, func() { s.closeSession(session) })
	defer end.Stop()
	p := &proof{server: s, entry: entry, target: w.target.Key}
	defer p.withdraw()
	aged := time.AfterFunc(handshakeTime, p.found)
	defer aged.Stop()
	joined := newSplice(conn, session.target, s.limits.IdleTimeout, s.metrics, p.found)
	err := joined.run(func() { s.closeSession(session) })
	s.closeSession(session)
	if s.options.Ended != nil {
		s.options.Ended(w.target, joined.carried())
	}
	if err != nil {
		s.log.V(1).Info("Passed connection ended early", "serverName", w.serverName, "cause", err.Error())
	}
	return resultPassed
}

// proof is what a connection shows by which its target has authenticated the client: it has carried more from there
// than a handshake, or has lasted longer than the target would have kept a stranger. Nobody evicts it then.
type proof struct {
	server *Server
	entry  *pooled
	target string

	mu     sync.Mutex
	proven *pooled
	over   bool
}

// found may be called more than once. Where the target, or the gateway, has as many proven connections as it may have,
// the connection stays as it is.
func (p *proof) found() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proven != nil || p.over {
		return
	}
	proven, ok := p.server.proven.tryAdd(group{key: p.target, limit: p.server.limits.ConnectionsPerTarget})
	if !ok {
		return
	}
	if !p.server.unproven.done(p.entry) { // evicted
		p.server.proven.done(proven)
		return
	}
	p.proven = proven
}

func (p *proof) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.proven != nil {
		p.server.proven.done(p.proven)
	}
}

// connect dials the target and repeats to it what the client has said.
func (s *Server) connect(ctx context.Context, session *passed, target Target, hello []byte) error {
	dialer := net.Dialer{Timeout: s.limits.DialTimeout}
	dialled, err := dialer.DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return err
	}
	backend := dialled.(*net.TCPConn)
	keepAlive(backend)
	if !s.setTarget(session, backend) {
		_ = backend.Close()
		return net.ErrClosed
	}
	err = errors.Join(backend.SetWriteDeadline(time.Now().Add(s.limits.DialTimeout)), writeAll(backend, hello))
	if err != nil {
		s.closeSession(session)
		return err
	}
	s.metrics.bytes.WithLabelValues("in").Add(float64(len(hello)))
	return nil
}

func writeAll(conn net.Conn, data []byte) error {
	_, err := conn.Write(data)
	return err
}

func (s *Server) register(key string, session *passed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.targets[key] == nil {
		s.targets[key] = map[*passed]struct{}{}
	}
	s.targets[key][session] = struct{}{}
}

func (s *Server) unregister(key string, session *passed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.targets[key], session)
	if len(s.targets[key]) == 0 {
		delete(s.targets, key)
	}
}

// setTarget reports false if the session was closed meanwhile.
func (s *Server) setTarget(session *passed, target *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session.closed {
		return false
	}
	session.target = target
	return true
}

// evictSession is called with a pool locked; the lock of the server is never held when one of a pool is taken.
func (s *Server) evictSession(session *passed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.evicted = true
	session.close()
}

func (s *Server) wasEvicted(session *passed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.evicted
}

func (s *Server) closeSession(session *passed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.close()
}

// close is called with the server's lock held.
func (p *passed) close() {
	p.closed = true
	_ = p.client.Close()
	if p.target != nil {
		_ = p.target.Close()
	}
}
