// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/lighterage/lighterage/agent/queue/audit"
)

// maxSessions bounds how many clients of one connection are told apart that ask for nothing at the moment. A proxy may
// ask for many.
const maxSessions = 8

// sessions are those of one connection, by client and protocol. Their owner locks them.
type sessions struct {
	all   map[sessionKey]*held
	ended bool
}

type sessionKey struct{ client, protocol string }

// held is a session and how many requests it serves. Bytes of the connection count for it from begun on.
type held struct {
	*audit.Session
	requests int
	begun    int64
}

// session returns that of a client on this connection; done has to follow when its request has ended.
func (c *conn) session(from caller) (s *audit.Session, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := sessionKey{from.client.Name, from.protocol}
	h := c.sessions.all[key]
	if h == nil {
		c.sessions.trim(c.wire.Load())
		h = &held{
			Session: c.service.options.Front.Audit().Begin(from.client, from.protocol, from.remote), begun: c.wire.Load(),
		}
		if c.sessions.all == nil {
			c.sessions.all = make(map[sessionKey]*held)
		}
		c.sessions.all[key] = h
	}
	h.requests++
	return h.Session, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if h.requests--; h.requests == 0 && c.sessions.ended {
			h.end(c.wire.Load())
		}
	}
}

// trim ends a session that serves no request if there are many.
func (s *sessions) trim(wire int64) {
	if len(s.all) < maxSessions {
		return
	}
	for key, h := range s.all {
		if h.requests == 0 {
			h.end(wire)
			delete(s.all, key)
			return
		}
	}
}

// end ends those that serve no request; others end with their last one.
func (s *sessions) end(wire int64) {
	s.ended = true
	for _, h := range s.all {
		if h.requests == 0 {
			h.end(wire)
		}
	}
}

func (h *held) end(wire int64) {
	h.Bytes.Store(wire - h.begun)
	h.End()
}
