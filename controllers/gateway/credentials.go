// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/lighterage/lighterage/agent/wire/chain"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

const (
	// strangerGrace is how long a connection of a caller whom no Peer vouches for is kept: long enough to be told why.
	strangerGrace = 10 * time.Second
	// identifyTimeout bounds the look at the Peers during a handshake; they are in memory.
	identifyTimeout = 5 * time.Second
)

// serverCredentials ask for a certificate, any at first, so that a caller who is not trusted is told in words rather
// than by a TLS alert. Every request checks the certificate against the Peers of that moment.
type serverCredentials struct {
	credentials.TransportCredentials
	trust *trust
}

func newServerCredentials(
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), t *trust,
) *serverCredentials {
	return &serverCredentials{
		trust: t,
		TransportCredentials: credentials.NewTLS(&tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: certificate,
			ClientAuth:     tls.RequireAnyClientCert,
			// Called before the client's signature is verified, which is costly for keys that nobody needs.
			VerifyConnection:       func(cs tls.ConnectionState) error { return chain.Check(cs.PeerCertificates) },
			SessionTicketsDisabled: true,
		}),
	}
}

// connectionInfo is what requests know of their connection.
type connectionInfo struct {
	credentials.TLSInfo
	conn *authenticated
}

// authenticated is what is known of the caller of a connection. It is safe for concurrent use.
type authenticated struct {
	*passthrough.LocalConn
	// owner is set when a Peer vouched for the caller, as the connection was made or with a later request.
	owner atomic.Pointer[passthrough.Owner]
}

// as makes the connection that of a caller for whom a Peer vouches.
func (a *authenticated) as(from caller) {
	owner := passthrough.Owner{Name: from.peer, Part: tenantOf(from.identity)}
	if a.Authenticated(owner) {
		a.owner.CompareAndSwap(nil, &owner)
	}
}

// ServerHandshake does not let strangers stay.
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := raw.(*passthrough.LocalConn)
	if !ok {
		return nil, nil, fmt.Errorf("the listener gave %T where *passthrough.LocalConn was expected", raw)
	}
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	secured, ok := info.(credentials.TLSInfo)
	if !ok {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("TLS gave %T where credentials.TLSInfo was expected", info)
	}
	ctx, cancel := context.WithTimeout(context.Background(), identifyTimeout)
	defer cancel()
	a := &authenticated{LocalConn: local}
	if from, err := c.trust.identify(ctx, secured.State.PeerCertificates); err == nil {
		a.as(from)
	} else {
		time.AfterFunc(strangerGrace, func() {
			if a.owner.Load() == nil {
				_ = conn.Close()
			}
		})
	}
	return conn, connectionInfo{TLSInfo: secured, conn: a}, nil
}

// Clone is of credentials.TransportCredentials.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{TransportCredentials: c.TransportCredentials.Clone(), trust: c.trust}
}
