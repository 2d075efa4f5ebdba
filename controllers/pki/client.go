// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

// Holder keeps a key pair in memory and renews it when half of its lifetime is over or the CA has changed. It is safe
// for concurrent use.
type Holder struct {
	authority *Authority
	identity  Identity
	lifetime  time.Duration
	names     []string

	mu     sync.Mutex
	pair   *tls.Certificate
	issuer *CA
}

// NewHolder returns a Holder; the first key pair is made when it is asked for. Who serves with it does so under the
// server names.
func NewHolder(authority *Authority, path string, lifetime time.Duration, serverNames ...string) *Holder {
	return &Holder{
		authority: authority,
		identity:  Identity{Cluster: authority.Cluster(), Path: path},
		lifetime:  lifetime,
		names:     serverNames,
	}
}

// Certificate returns a key pair that is valid for at least half of the lifetime, and the CA that issued it.
func (h *Holder) Certificate(ctx context.Context) (*tls.Certificate, *CA, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ca, err := h.authority.CA(ctx)
	if err != nil {
		return nil, nil, err
	}
	now := h.authority.options.Clock.Now()
	if h.pair != nil && h.issuer.Certificate.Equal(ca.Certificate) && Fresh(h.pair.Leaf, now) {
		return h.pair, ca, nil
	}
	issued, err := ca.Issue(Template{Identity: h.identity, Lifetime: h.lifetime, DNSNames: h.names}, now)
	if err != nil {
		return nil, nil, err
	}
	pair, err := issued.TLS()
	if err != nil {
		return nil, nil, err
	}
	h.pair, h.issuer = &pair, ca
	return h.pair, ca, nil
}

// GetCertificate is for tls.Config of a server.
func (h *Holder) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, _, err := h.Certificate(hello.Context())
	return pair, err
}

// ClientConfig is for dialling who serves under serverName with a certificate that the roots verify. It speaks HTTP/2
// over TLS 1.3 only.
func ClientConfig(pair *tls.Certificate, roots *x509.CertPool, serverName string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*pair},
		RootCAs:      roots,
		ServerName:   serverName,
		NextProtos:   []string{"h2"},
	}
}
