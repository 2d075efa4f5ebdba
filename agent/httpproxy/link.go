// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"net"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/transport"
)

const (
	// linkEvery is how many requests of a connection there are from one look at what it carried to the next. Once the
	// network is known one in linkShare connections is looked at so often, and at its end. The others are looked at
	// every linkRarely requests: clients may keep a few connections for ever.
	linkEvery, linkShare, linkRarely = 4, 4, 16
)

// link finds out what the connection of a client carries.
type link struct {
	conn    net.Conn
	classes *adapt.Classes
	rarely  bool

	mu     sync.Mutex
	seen   int64 // requests
	before transport.Carried
	// What is known where the kernel does not tell: what was written, and for how long.
	wrote   int64
	writing time.Duration
}

// newLink returns what looks at a connection.
func (s *Server) newLink(conn net.Conn) *link {
	return &link{
		conn: conn, classes: s.classes, rarely: s.accepted.Add(1)%linkShare != 0 && s.classes.Carrier().Link > 0,
	}
}

// look takes in what was carried since the look before, when so many requests have begun. Connections that are looked
// at often are also looked at when they end, however few there were.
func (l *link) look(requests int64, end bool) {
	if l == nil || !l.mu.TryLock() { // another request of HTTP/2 looks
		return
	}
	defer l.mu.Unlock()
	answers, due := requests-l.seen, int64(linkEvery)
	if l.rarely {
		due = linkRarely
	} else if end {
		due = 1
	}
	if answers < due {
		return
	}
	c, err := transport.Measure(l.conn)
	if err != nil || c.Rate == 0 {
		if l.wrote >= adapt.LinkLeast {
			l.classes.Carried(l.writing.Seconds() / float64(l.wrote))
		}
	} else if delta := c.Acknowledged - l.before.Acknowledged; delta >= adapt.LinkLeast {
		l.classes.Carried(adapt.PerByte(c, float64(delta), c.Busy-l.before.Busy, answers))
	}
	l.seen, l.before, l.wrote, l.writing = requests, c, 0, 0
}

// written takes in that so many bytes were written.
func (l *link) written(n int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote += int64(n)
	l.writing += took
}
