// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit logs who uses a queue: a line when a client authenticates and one when it goes, and what was rejected.
// Lines have the attribute audit=true and name clients, never what they show.
//
// A storm of connections or requests does not become one of lines: of each client, and of all together, so many lines
// are written a second, and what has none is summed up in a later one. Nothing is left uncounted.
package audit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

const (
	// A client may have burst lines at once and perSecond more each second; all clients together so many.
	burst, perSecond       = 20, 1
	allBurst, allPerSecond = 200, 50
	// Interval between two summaries of one client, or two counts of one kind of rejection.
	Interval = 10 * time.Second
	// maxKept bounds how many clients and kinds of rejections are told apart; further ones are one.
	maxKept = 1024
	others  = "others"
)

// Why something is rejected.
const (
	Unauthenticated = "Unauthenticated"
	Forbidden       = "Forbidden"
)

// Log writes the lines. It is safe for concurrent use.
type Log struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	all      bucket
	clients  map[string]*client
	rejected map[rejection]*rejections
}

// New returns one. Nothing is summed up unless Flush is called each Interval.
func New(log *slog.Logger) *Log {
	l := &Log{
		log: log.With("audit", true), now: time.Now, clients: make(map[string]*client),
		rejected: make(map[rejection]*rejections),
	}
	l.all = bucket{left: allBurst, at: l.now()}
	return l
}

// bucket counts lines.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) refill(now time.Time, most, rate float64) {
	b.left, b.at = min(most, b.left+rate*now.Sub(b.at).Seconds()), now
}

// client is what is known of one.
type client struct {
	lines bucket
	// sum is of sessions that have no lines of their own.
	sum  sums
	told time.Time
}

type sums struct{ sessions, puts, gets, acks, bytes int64 }

type rejection struct{ reason, client string }

type rejections struct {
	lines            bucket
	untold           int64
	told             time.Time
	protocol, remote string // of the last one
}

// Session is a client from when it authenticated until End.
type Session struct {
	log                      *Log
	client, protocol, remote string
	begun                    time.Time
	alone                    bool // has lines of its own
	ended                    atomic.Bool

	// Puts that were acknowledged, Gets that were delivered, Acks of messages, and Bytes on the wire.
	Puts, Gets, Acks, Bytes atomic.Int64
}

// Begin notes that a client authenticated, by a protocol and from a remote address.
func (l *Log) Begin(c roles.Client, protocol, remote string) *Session {
	now := l.now()
	s := &Session{log: l, client: c.Name, protocol: protocol, remote: remote, begun: now}
	l.mu.Lock()
	known := l.client(c.Name, now)
	s.alone = l.take(&known.lines, now, burst, perSecond, 2) // one for the end
	l.mu.Unlock()
	if s.alone {
		l.log.Info("Client authenticated", "client", c.Name, "protocol", protocol, "remote", remote,
			"operations", c.Operations.String())
	}
	return s
}

// Count adds to what it did. A nil one counts nothing.
func (s *Session) Count(puts, gets, acks int64) {
	if s == nil {
		return
	}
	s.Puts.Add(puts)
	s.Gets.Add(gets)
	s.Acks.Add(acks)
}

// End notes that it has gone. Ending twice is allowed.
func (s *Session) End() {
	if s == nil || s.ended.Swap(true) {
		return
	}
	l, now := s.log, s.log.now()
	if s.alone {
		l.log.Info("Client disconnected", "client", s.client, "protocol", s.protocol, "remote", s.remote,
			"puts", s.Puts.Load(), "gets", s.Gets.Load(),
			"acknowledgements", s.Acks.Load(), "bytes", s.Bytes.Load(), "duration", now.Sub(s.begun).String())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(s.client, now)
	c.sum.sessions++
	c.sum.puts += s.Puts.Load()
	c.sum.gets += s.Gets.Load()
	c.sum.acks += s.Acks.Load()
	c.sum.bytes += s.Bytes.Load()
}

// client returns what is known of one. The lock is held.
func (l *Log) client(name string, now time.Time) *client {
	if c := l.clients[name]; c != nil {
		return c
	}
	if len(l.clients) >= maxKept {
		name = others
	}
	c := l.clients[name]
	if c == nil {
		c = &client{lines: bucket{burst, now}, told: now}
		l.clients[name] = c
	}
	return c
}

// take reports whether there are n lines left. The lock is held.
func (l *Log) take(b *bucket, now time.Time, most, rate float64, n float64) bool {
	l.all.refill(now, allBurst, allPerSecond)
	b.refill(now, most, rate)
	if l.all.left < n || b.left < n {
		return false
	}
	l.all.left -= n
	b.left -= n
	return true
}

// Reject notes a client that did not authenticate, whose name is empty, or a request that it may not make.
func (l *Log) Reject(reason, name, protocol, remote string) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	key := rejection{reason, name}
	r := l.rejected[key]
	if r == nil && len(l.rejected) >= maxKept {
		key.client = others
		r = l.rejected[key]
	}
	if r == nil {
		r = &rejections{lines: bucket{burst, now}, told: now}
		l.rejected[key] = r
	}
	r.untold++
	r.protocol, r.remote = protocol, remote
	if l.take(&r.lines, now, burst, 1/Interval.Seconds(), 1) {
		l.rejection(key, r, now)
	}
}

// rejection writes what was not told. The lock is held.
func (l *Log) rejection(key rejection, r *rejections, now time.Time) {
	l.log.Warn(
		"Request rejected", "reason", key.reason, "client", key.client, "protocol", r.protocol, "remote", r.remote, "count",
		r.untold,
	)
	r.untold, r.told = 0, now
}

// Flush writes what is summed up, and forgets who has not been there for long. It is to be called about each Interval,
// and at the end.
func (l *Log) Flush() {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.clients {
		if c.sum.sessions > 0 {
			l.log.Info("Client sessions", "client", name, "sessions", c.sum.sessions, "puts", c.sum.puts, "gets", c.sum.gets,
				"acknowledgements", c.sum.acks, "bytes", c.sum.bytes, "since", c.told)
		}
		c.sum, c.told = sums{}, now
		if c.lines.refill(now, burst, perSecond); c.lines.left >= burst {
			delete(l.clients, name)
		}
	}
	for key, r := range l.rejected {
		if r.untold > 0 {
			l.rejection(key, r, now)
		}
		if r.lines.refill(now, burst, 1/Interval.Seconds()); r.lines.left >= burst {
			delete(l.rejected, key)
		}
	}
}
