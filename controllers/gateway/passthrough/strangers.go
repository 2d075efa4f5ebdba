// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import "net"

// Strangers bounds connections of which nothing is known yet, in all and for each source: an IPv4 address or an IPv6
// /64. One more evicts the oldest, so that nobody who connects and says nothing keeps others out. It is safe for
// concurrent use.
type Strangers struct {
	pool      *pool
	perSource int
}

// NewStrangers returns one for so many connections; both limits must be above 0.
func NewStrangers(limit, perSource int) *Strangers {
	return &Strangers{pool: newPool(limit), perSource: perSource}
}

// Add takes a connection in. If it is evicted it is closed, after a call of evicted. known takes it out, and reports
// false if it was evicted before.
func (s *Strangers) Add(conn net.Conn, evicted func()) (known func() bool) {
	entry := s.pool.add(func() {
		evicted()
		_ = conn.Close()
	}, group{key: sourceOf(conn.RemoteAddr()), limit: s.perSource})
	return func() bool { return s.pool.done(entry) }
}
