// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"sync"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// subscriptions are those of one connection. They are safe for concurrent use.
type subscriptions struct {
	mu    sync.Mutex
	bySID map[string]*subscription
	// stored says that there is one that gets messages as they are stored.
	stored bool
}

type subscription struct {
	subject   []byte
	stored    bool
	delivered int
	max       int // 0: no end
}

// add notes one. It returns false when there are as many as one connection may have.
func (s *subscriptions) add(sid, subject []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bySID) >= store.MaxSubscriptions {
		return false
	}
	if s.bySID == nil {
		s.bySID = make(map[string]*subscription)
	}
	s.bySID[string(sid)] = &subscription{subject: bytes.Clone(subject)}
	return true
}

// remove ends a subscription, now or after so many messages.
func (s *subscriptions) remove(sid []byte, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.bySID[string(sid)]
	switch {
	case sub == nil:
	case limit > sub.delivered:
		sub.max = limit
	default:
		delete(s.bySID, string(sid))
	}
}

// storedFor notes that what is sent to a subject is wanted as it is stored.
func (s *subscriptions) storedFor(subject []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.bySID {
		if covers(sub.subject, subject) {
			sub.stored, s.stored = true, true
		}
	}
}

// wantsStored reports whether a subscription gets messages as they are stored.
func (s *subscriptions) wantsStored(sid []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stored {
		return false
	}
	sub := s.bySID[string(sid)]
	return sub != nil && sub.stored
}

// delivered counts a message.
func (s *subscriptions) delivered(sid []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.bySID[string(sid)]
	if sub == nil {
		return
	}
	sub.delivered++
	if sub.max > 0 && sub.delivered >= sub.max {
		delete(s.bySID, string(sid))
	}
}

// covers reports whether a subject with wildcards covers one without.
func covers(pattern, subject []byte) bool {
	for len(pattern) > 0 && len(subject) > 0 {
		p, morePatterns, pFound := bytes.Cut(pattern, []byte("."))
		s, moreSubject, sFound := bytes.Cut(subject, []byte("."))
		if string(p) == ">" {
			return true
		}
		if string(p) != "*" && !bytes.Equal(p, s) || pFound != sFound && string(morePatterns) != ">" {
			return false
		}
		pattern, subject = morePatterns, moreSubject
	}
	return len(pattern) == 0 && len(subject) == 0
}
