// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrStopping is returned where no connection is joined any more.
var ErrStopping = errors.New("the gateway is being stopped")

var errWithdrawn = errors.New("the target was withdrawn as the connection was made")

// Data are the connections that a peer's gateway has dialled because this process asked for them.
type Data interface {
	// Mine reports whether a server name is that of such a connection to this process.
	Mine(serverName string) bool
	// Take takes over a connection of which nothing but the ClientHello was read, or reports false.
	Take(serverName string, conn *net.TCPConn) bool
}

// Join joins a connection with another cluster to one of this cluster until both directions have ended, and closes
// both. first was read of the local one already. CloseTarget with the key of the target ends it, and so does a stop of
// the server after the drain timeout. allowed is asked once CloseTarget would end it: whether the target, found before
// that, is still there.
func (s *Server) Join(target Target, remote, local *net.TCPConn, first []byte, allowed func() bool) error {
	session := &passed{client: remote, target: local}
	defer s.closeSession(session)
	s.mu.Lock()
	if s.routing == nil {
		s.mu.Unlock()
		return ErrStopping
	}
	s.all.Add(1)
	s.mu.Unlock()
	defer s.all.Done()
	s.register(target.Key, session)
	defer s.unregister(target.Key, session)
	if !allowed() {
		return errWithdrawn
	}
	if len(first) > 0 {
		err := errors.Join(remote.SetWriteDeadline(time.Now().Add(s.limits.DialTimeout)), writeAll(remote, first))
		if err != nil {
			return fmt.Errorf("passing on what was read: %w", err)
		}
	}
	open := s.metrics.open.WithLabelValues("joined")
	open.Inc()
	defer open.Dec()
	end := time.AfterFunc(s.limits.Lifetime, func() { s.closeSession(session) })
	defer end.Stop()
	return newSplice(remote, local, s.limits.IdleTimeout, s.metrics, func() {}).run(func() { s.closeSession(session) })
}
