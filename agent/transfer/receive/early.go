// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"crypto/subtle"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// early are connections that were made before a session and are not claimed yet, the oldest first. There are as many as
// a session has at most: one more takes the place of the oldest, whose sender may be gone without a word.
type early struct {
	mu    sync.Mutex
	conns []net.Conn
	over  bool // there will be no session that claims one
}

// claim waits for what a connection says that it belongs to, nil if it does not say so in time.
func (e *early) claim(conn net.Conn) []byte {
	if !e.add(conn) {
		return nil
	}
	defer e.remove(conn)
	_ = conn.SetReadDeadline(time.Now().Add(protocol.ClaimPatience))
	session, err := protocol.ReadClaim(conn)
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		return nil
	}
	return session
}

func (e *early) add(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	if len(e.conns) == protocol.MaxStreams {
		_ = e.conns[0].Close()
		e.conns = slices.Delete(e.conns, 0, 1)
	}
	e.conns = append(e.conns, conn)
	return true
}

func (e *early) remove(conn net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.conns, conn); i >= 0 {
		e.conns = slices.Delete(e.conns, i, i+1)
	}
}

// end closes what is not claimed.
func (e *early) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}

// claimed reports whether a connection belongs to the attempt that has said so, or said nothing because it was made
// after the session.
func (a *attempt) claimed(session []byte) bool {
	return session == nil || a.opened.Load() && subtle.ConstantTimeCompare(session, a.terms.token) == 1
}
