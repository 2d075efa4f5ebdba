// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// strangerGrace is how long a connection of a caller whom no Peer vouches for is kept: long enough to be told why.
	strangerGrace = 10 * time.Second
	// identifyTimeout bounds the look at the Peers during a handshake; they are in memory.
	identifyTimeout = 5 * time.Second
)

// serverCredentials ask for a certificate, any at first, so that a caller who is not trusted is told in words rather than by a TLS
// alert. Every request checks the certificate against the Peers of that moment.
type serverCredentials struct {
	credentials.TransportCredentials
	trust *trust
}

func newServerCredentials(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), t *trust) *serverCredentials {
	return &serverCredentials{
		trust: t,
		TransportCredentials: credentials.NewTLS(&tls.Config{
			MinVersion:             tls.VersionTLS13,
			GetCertificate:         certificate,
			ClientAuth:             tls.RequireAnyClientCert,
			SessionTicketsDisabled: true,
		}),
	}
}

// connectionInfo is what requests know of their connection.
type connectionInfo struct {
	credentials.TLSInfo
	// stranger is true when no Peer vouched for the caller as the connection was made.
	stranger bool
}

// ServerHandshake does not let strangers stay.
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
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
	_, err = c.trust.identify(ctx, secured.State.PeerCertificates)
	if err != nil {
		time.AfterFunc(strangerGrace, func() { _ = conn.Close() })
	}
	return conn, connectionInfo{TLSInfo: secured, stranger: err != nil}, nil
}

// Clone is of credentials.TransportCredentials.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{TransportCredentials: c.TransportCredentials.Clone(), trust: c.trust}
}
