// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// recording is TLS for gRPC that remembers why a handshake failed, in its type: gRPC itself passes on the text alone.
type recording struct {
	credentials.TransportCredentials
	log *handshakeLog
}

type handshakeLog struct {
	mu  sync.Mutex
	err error
}

func (l *handshakeLog) record(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *handshakeLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func newCredentials(config *tls.Config) *recording {
	return &recording{TransportCredentials: credentials.NewTLS(config), log: &handshakeLog{}}
}

// ClientHandshake also waits for the server's first byte. With TLS 1.3 a server that refuses our certificate says so
// only after our handshake is done, and who writes meanwhile may find a closed connection in place of the reason.
// HTTP/2 servers speak at once.
func (r *recording) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := r.TransportCredentials.ClientHandshake(ctx, authority, raw)
	r.log.record(err)
	if err != nil {
		return nil, nil, err
	}
	first := &firstByte{Conn: conn}
	if err := first.wait(ctx); err != nil {
		var alert tls.AlertError
		var remote *net.OpError
		if errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error" {
			r.log.record(&refusedError{err})
		}
		conn.Close()
		return nil, nil, err
	}
	return first, info, nil
}

func (r *recording) Clone() credentials.TransportCredentials {
	return &recording{TransportCredentials: r.TransportCredentials.Clone(), log: r.log}
}

// firstByte is a connection of which one byte was read ahead.
type firstByte struct {
	net.Conn
	ahead [1]byte
	full  bool
}

// wait reads the byte; it is bounded by the context.
func (f *firstByte) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = f.Conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.ReadFull(f.Conn, f.ahead[:]); err != nil {
		return err
	}
	f.full = true
	return nil
}

// Read is called by one goroutine at a time.
func (f *firstByte) Read(p []byte) (int, error) {
	if f.full && len(p) > 0 {
		p[0], f.full = f.ahead[0], false
		return 1, nil
	}
	return f.Conn.Read(p)
}

// refusedError is an alert of the other side.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// distrust reports whether a handshake failed because one side did not accept the other's certificate.
func distrust(handshake error) bool {
	var verification *tls.CertificateVerificationError
	var refused *refusedError
	return errors.As(handshake, &verification) || errors.As(handshake, &refused)
}
