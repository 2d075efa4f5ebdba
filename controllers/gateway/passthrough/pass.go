// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"net"
	"time"
)

// pass joins the connection to its target and returns when both have ended.
func (s *Server) pass(ctx context.Context, conn *net.TCPConn, serverName string, hello []byte) (result string) {
	if serverName == "" {
		return resultUnknownName
	}
	lookup, cancel := context.WithTimeout(ctx, s.limits.HelloTimeout)
	target, ok := s.options.Lookup(lookup, serverName)
	cancel()
	if !ok {
		return resultUnknownName
	}
	session := &passed{client: conn}
	if !s.register(target.Key, session) {
		return resultTargetLimit
	}
	defer s.unregister(target.Key, session)
	// A target that went away before it was registered would not have been closed with the others of its key.
	if again, ok := s.options.Lookup(lookup, serverName); !ok || again != target {
		return resultTargetWithdraw
	}
	if err := s.connect(ctx, session, target, hello); err != nil {
		s.log.Error(err, "Connection could not be passed through", "serverName", serverName, "target", target.Address)
		return resultUnreachable
	}
	s.metrics.count(resultPassed)
	open := s.metrics.open.WithLabelValues("passed")
	open.Inc()
	defer open.Dec()
	end := time.AfterFunc(s.limits.Lifetime, func() { s.closeSession(session) })
	defer end.Stop()
	err := newSplice(conn, session.target, s.limits.IdleTimeout, s.metrics).run(func() { s.closeSession(session) })
	s.closeSession(session)
	if err != nil {
		s.log.V(1).Info("Passed connection ended early", "serverName", serverName, "cause", err.Error())
	}
	return resultPassed
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

func (s *Server) register(key string, session *passed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.targets[key]) >= s.limits.ConnectionsPerTarget {
		return false
	}
	if s.targets[key] == nil {
		s.targets[key] = map[*passed]struct{}{}
	}
	s.targets[key][session] = struct{}{}
	return true
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
