// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"
)

const (
	// linkLife is how long a link that nobody has opened can be opened, sessionLife how long a browser stays signed in.
	linkLife    = 10 * time.Minute
	sessionLife = 12 * time.Hour
	// Bounds of what is remembered; the oldest go first.
	mostLinks    = 8
	mostSessions = 16
)

// sessions are the links that can be opened, once each, and the browsers that have opened one. Secrets are kept as
// digests, so that finding one takes no time that tells of it.
type sessions struct {
	now func() time.Time

	mu    sync.Mutex
	links map[[sha256.Size]byte]time.Time
	open  map[[sha256.Size]byte]session
}

// session is that of a browser.
type session struct {
	until time.Time
	// form is what forms of this browser carry, and no other page knows.
	form string
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, links: map[[sha256.Size]byte]time.Time{}, open: map[[sha256.Size]byte]session{}}
}

// link makes a secret that can be exchanged for a session.
func (s *sessions) link() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	secret := rand.Text()
	s.links[sha256.Sum256([]byte(secret))] = s.now().Add(linkLife)
	for len(s.links) > mostLinks {
		forgetOldest(s.links, func(until time.Time) time.Time { return until })
	}
	return secret
}

// exchange makes a session of the secret of a link, which is of no use afterwards.
func (s *sessions) exchange(secret string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	key := sha256.Sum256([]byte(secret))
	if _, ok := s.links[key]; !ok {
		return "", false
	}
	delete(s.links, key)
	id = rand.Text()
	s.open[sha256.Sum256([]byte(id))] = session{s.now().Add(sessionLife), rand.Text()}
	for len(s.open) > mostSessions {
		forgetOldest(s.open, func(of session) time.Time { return of.until })
	}
	return id, true
}

// find is the session with an id.
func (s *sessions) find(id string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	found, ok := s.open[sha256.Sum256([]byte(id))]
	return found, ok
}

// end ends a session.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(id)))
}

// sweep forgets what has expired.
func (s *sessions) sweep() {
	now := s.now()
	for key, until := range s.links {
		if !now.Before(until) {
			delete(s.links, key)
		}
	}
	for key, of := range s.open {
		if !now.Before(of.until) {
			delete(s.open, key)
		}
	}
}

func forgetOldest[K comparable, V any](all map[K]V, until func(V) time.Time) {
	var oldest K
	first := true
	for key, value := range all {
		if first || until(value).Before(until(all[oldest])) {
			oldest, first = key, false
		}
	}
	delete(all, oldest)
}

// carries reports whether a form has the secret of its session.
func (s session) carries(secret string) bool {
	return s.form != "" && subtle.ConstantTimeCompare([]byte(s.form), []byte(secret)) == 1
}
