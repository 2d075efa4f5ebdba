// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

var (
	// errHelloTooLarge: the ClientHello did not end within the limit.
	errHelloTooLarge = errors.New("the ClientHello is too large")
	// errNotTLS: what came is no ClientHello.
	errNotTLS = errors.New("no TLS ClientHello")

	// errStop ends the handshake of readHello once the ClientHello is known.
	errStop = errors.New("the ClientHello is complete")
)

// readHello reads a TLS ClientHello of at most limit bytes from r. It returns the server name in it, which is empty
// when the client sent none, and every byte that was read, so that they can be handed on. The parsing is left to
// crypto/tls: a handshake is begun that stops at the ClientHello and that cannot write.
func readHello(r io.Reader, limit int) (serverName string, read []byte, err error) {
	var recorded bytes.Buffer
	bounded := &io.LimitedReader{R: r, N: int64(limit)}
	seen := false
	handshake := tls.Server(&readOnlyConn{Reader: io.TeeReader(bounded, &recorded)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			seen, serverName = true, hello.ServerName
			return nil, errStop
		},
	})
	err = handshake.Handshake() //nolint:noctx // the reader it reads from has a deadline
	switch {
	case seen:
		return serverName, recorded.Bytes(), nil
	case bounded.N <= 0:
		return "", recorded.Bytes(), fmt.Errorf("%w: more than %d bytes", errHelloTooLarge, limit)
	default:
		return "", recorded.Bytes(), fmt.Errorf("%w: %w", errNotTLS, err)
	}
}

// readOnlyConn is a connection that can only be read.
type readOnlyConn struct {
	io.Reader
}

func (*readOnlyConn) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (*readOnlyConn) Close() error                     { return nil }
func (*readOnlyConn) LocalAddr() net.Addr              { return nil }
func (*readOnlyConn) RemoteAddr() net.Addr             { return nil }
func (*readOnlyConn) SetDeadline(time.Time) error      { return nil }
func (*readOnlyConn) SetReadDeadline(time.Time) error  { return nil }
func (*readOnlyConn) SetWriteDeadline(time.Time) error { return nil }
