// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// Credential is what a client showed. A nil one stands for nobody.
type Credential struct {
	digest roles.Digest // of a token, unless there are certificates
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
	return &Credential{digest: roles.DigestOf(token)}
}

// Certificate is the client's certificate of a connection, if that was verified.
func Certificate(state *tls.ConnectionState) *Credential {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return &Credential{certificates: state.PeerCertificates, verified: time.Now()}
}

// client returns who some credentials stand for, with the operations of all of them. Digests are compared, so that the
// time it takes says nothing of tokens.
func (g *generation) client(shown ...*Credential) roles.Client {
	if g.Open {
		return roles.Client{Name: "anybody", Operations: roles.All}
	}
	var found roles.Client
	for _, c := range shown {
		var one roles.Client
		switch {
		case c == nil:
		case len(c.certificates) == 0:
			one = g.clients.Token(c.digest)
		case g.vouches(c):
			one = g.clients.Certificate(c.certificates[0])
		}
		if one.Operations != roles.None && found.Operations == roles.None {
			found.Name = one.Name
		}
		found.Operations |= one.Operations
	}
	return found
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
		Roots: g.ClientCAs, Intermediates: between, CurrentTime: c.verified,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return false
	}
	c.vouched.Store(g)
	return true
}

// same reports whether the same clients may do the same.
func (g *generation) same(other *generation) bool {
	return g.Open == other.Open && g.ClientCAs.Equal(other.ClientCAs) && g.clients.Same(other.clients)
}

// Guest is a client that authenticated, until Leave, or one that did not.
type Guest struct {
	front *Front
	shown []*Credential
	cut   func(roles.Client)
	// client is who it is since Watch, and judged that it was found out.
	client roles.Client
	judged bool
}

// Client is who it was when it came. Without operations it may not come in. It does not change: when its operations
// do, it is cut.
func (g *Guest) Client() roles.Client { return g.client }

// guests are all of them.
type guests struct {
	mu  sync.Mutex
	all map[*Guest]struct{}
}

// Watch returns who credentials stand for, and has cut called with that, which must not wait for anything, when their
// operations become others, perhaps before Watch returns. Leave has to follow.
func (f *Front) Watch(cut func(roles.Client), shown ...*Credential) *Guest {
	g := &Guest{front: f, shown: shown, cut: cut}
	f.guests.mu.Lock()
	if f.guests.all == nil {
		f.guests.all = make(map[*Guest]struct{})
	}
	f.guests.all[g] = struct{}{}
	f.guests.mu.Unlock()
	// It is watched before it is judged, so that no change passes it by.
	for {
		s := f.settings.Load()
		client := s.client(shown...)
		f.guests.mu.Lock()
		g.client, g.judged = client, true
		f.guests.mu.Unlock()
		if f.settings.Load() == s {
			return g
		}
	}
}

// Leave ends watching.
func (g *Guest) Leave() {
	g.front.guests.mu.Lock()
	defer g.front.guests.mu.Unlock()
	delete(g.front.guests.all, g)
}

// revoke cuts those who may do something else by a generation.
func (f *Front) revoke(s *generation) {
	f.guests.mu.Lock()
	all := make(map[*Guest]roles.Client, len(f.guests.all))
	for g := range f.guests.all {
		if g.judged { // Others see this generation.
			all[g] = g.client
		}
	}
	f.guests.mu.Unlock()
	for g, client := range all {
		if s.client(g.shown...).Operations != client.Operations {
			g.cut(client)
		}
	}
}
