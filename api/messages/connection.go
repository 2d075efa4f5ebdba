// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// connection remembers why it could not be made, until it is: gRPC passes on the text alone.
type connection struct{ err atomic.Pointer[error] }

func (c *connection) record(err error) { c.err.Store(&err) }

func (c *connection) error() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// distrusted is true when the certificate was not accepted, which another attempt does not change.
func (c *connection) distrusted() bool {
	var unverified *tls.CertificateVerificationError
	return errors.As(c.error(), &unverified)
}

// handshakes is TLS whose failures are remembered.
type handshakes struct {
	credentials.TransportCredentials
	last *connection
}

// ClientHandshake implements credentials.TransportCredentials.
func (h *handshakes) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	h.last.record(err)
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.last}
}
