// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"sync/atomic"
	"time"
)

// Credential is what a client showed. A nil one lets nobody in.
type Credential struct {
	digest [sha256.Size]byte // of a token, unless there are certificates
	// certificates as the client showed them, its own first, and when they were verified.
	certificates []*x509.Certificate
	verified     time.Time
	// vouched is the last generation whose CAs were found to vouch for them.
	vouched atomic.Pointer[generation]
}

// Token is a token as a credential.
func Token(token string) *Credential {
	if token == "" {
		return nil
	}
	return &Credential{digest: sha256.Sum256([]byte(token))}
}

// Certificate is the client's certificate of a connection, if that was verified.
func Certificate(state *tls.ConnectionState) *Credential {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return &Credential{certificates: state.PeerCertificates, verified: time.Now()}
}

// lets reports whether one of some credentials lets a client in. Digests are compared, so that the
// time it takes says nothing of tokens.
func (g *generation) lets(shown ...*Credential) bool {
	if !g.authenticates() {
		return true
	}
	for _, c := range shown {
		if c != nil && (len(c.certificates) == 0 && g.tokens[c.digest] || g.vouches(c)) {
			return true
		}
	}
	return false
}

// vouches reports whether the CAs do for a certificate. Whether it has expired since the client came does
// not matter: a connection outlives that, as with any server.
func (g *generation) vouches(c *Credential) bool {
	if g.ClientCAs == nil || len(c.certificates) == 0 {
		return false
	}
	if c.vouched.Load() == g {
		return true
	}
	between := x509.NewCertPool()
	for _, certificate := range c.certificates[1:] {
		between.AddCert(certificate)
	}
	if _, err := c.certificates[0].Verify(x509.VerifyOptions{
		Roots: g.ClientCAs, Intermediates: between, CurrentTime: c.verified, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return false
	}
	c.vouched.Store(g)
	return true
}

// same reports whether the same clients are let in.
func (g *generation) same(other *generation) bool {
	if g.Open != other.Open || !g.ClientCAs.Equal(other.ClientCAs) || len(g.tokens) != len(other.tokens) {
		return false
	}
	for digest := range g.tokens {
		if !other.tokens[digest] {
			return false
		}
	}
	return true
}

// Guest is a client that was let in, until Leave.
type Guest struct {
	front *Front
	shown []*Credential
	cut   func()
}

// guests are all of them.
type guests struct {
	mu  sync.Mutex
	all map[*Guest]struct{}
}

// Watch has cut called, which must not wait for anything, when credentials let a client in no more. Who
// is let in at all is to be asked after it, by Lets.
func (f *Front) Watch(cut func(), shown ...*Credential) *Guest {
	g := &Guest{f, shown, cut}
	f.guests.mu.Lock()
	defer f.guests.mu.Unlock()
	if f.guests.all == nil {
		f.guests.all = make(map[*Guest]struct{})
	}
	f.guests.all[g] = struct{}{}
	return g
}

// Leave ends watching.
func (g *Guest) Leave() {
	g.front.guests.mu.Lock()
	defer g.front.guests.mu.Unlock()
	delete(g.front.guests.all, g)
}

// revoke cuts those that a generation does not let in.
func (f *Front) revoke(s *generation) {
	f.guests.mu.Lock()
	all := make([]*Guest, 0, len(f.guests.all))
	for g := range f.guests.all {
		all = append(all, g)
	}
	f.guests.mu.Unlock()
	for _, g := range all {
		if !s.lets(g.shown...) {
			g.cut()
		}
	}
}
