// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"time"
)

const (
	// maxInfo bounds what a server says of itself, in bytes.
	maxInfo = 64 << 10
	// dialTimeout bounds how long a server may take to say it, TLS included.
	dialTimeout = 10 * time.Second

	schemePlain, schemeTLS = "nats", "tls"
)

// ErrProtocol says that who listens is no server of NATS, or not one with TLS where that was asked for.
var ErrProtocol = errors.New("it does not speak the protocol of NATS")

// errNoTLS says that a server of NATS has no TLS where tls:// asks for it.
var errNoTLS = errors.New("a server offers no TLS: let it, or write nats:// in place of tls://")

// parseServers reads addresses.
func parseServers(texts []string) ([]*url.URL, error) {
	var servers []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != schemePlain && u.Scheme != schemeTLS || u.Hostname() == "" || u.User != nil {
			return nil, fmt.Errorf("server %q: write nats://HOST:PORT or tls://HOST:PORT", text)
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "4222")
		}
		if len(servers) > 0 && servers[0].Scheme != u.Scheme {
			return nil, fmt.Errorf("server %q: all servers have tls:// or none has", text)
		}
		servers = append(servers, u)
	}
	if len(servers) == 0 {
		return nil, errors.New("no server is given")
	}
	return servers, nil
}

// Dial returns a connection to one of the servers, which has not been told yet who it is.
func (e *External) Dial(ctx context.Context) (net.Conn, error) {
	var problems []error
	for _, i := range rand.Perm(len(e.servers)) {
		conn, err := e.dial(ctx, e.servers[i].Host)
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(problems...)
}

// dial connects to a server, with TLS if the addresses or the server ask for it. What the server says of itself before
// that is read from the connection as if it came after it.
func (e *External) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := e.egress.Dial(ctx, 0, address)
	if err != nil {
		return nil, err
	}
	greeted, err := e.greet(ctx, conn, address)
	if err != nil {
		_ = conn.Close() // It is of no use.
		return nil, fmt.Errorf("server %s: %w", address, err)
	}
	return greeted, nil
}

func (e *External) greet(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	info, rest, err := readInfo(conn)
	if err != nil {
		return nil, err
	}
	var says struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(info[len("INFO"):]), &says); err != nil {
		return nil, fmt.Errorf("%w: read what it says of itself: %w", ErrProtocol, err)
	}
	if e.servers[0].Scheme == schemePlain && !says.Required {
		return &preceded{Conn: conn, first: append(info, rest...)}, nil
	}
	if !says.Required && !says.Available || len(rest) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, errNoTLS)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := readCredentials(e.options.Directory)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host, RootCAs: e.roots, MinVersion: tls.VersionTLS12}
	if c.certificate != nil {
		config.Certificates = []tls.Certificate{*c.certificate}
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return &preceded{Conn: secured, first: info}, nil
}

// readInfo reads the line with which a server begins, and what came with it.
func readInfo(conn io.Reader) (info, rest []byte, err error) {
	buf := make([]byte, 0, 4<<10)
	for {
		if end := bytes.IndexByte(buf, '\n'); end >= 0 {
			if !bytes.HasPrefix(buf, []byte("INFO ")) {
				return nil, nil, fmt.Errorf("%w: it begins with %.20q", ErrProtocol, buf)
			}
			return buf[: end+1 : end+1], buf[end+1:], nil
		}
		if len(buf) >= maxInfo || len(buf) >= len("INFO ") && !bytes.HasPrefix(buf, []byte("INFO ")) {
			return nil, nil, fmt.Errorf("%w: it begins with %.20q", ErrProtocol, buf)
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && err != nil {
			return nil, nil, fmt.Errorf("it says nothing of itself: %w", err)
		}
	}
}

// preceded is a connection of which something was read before.
type preceded struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (c *preceded) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// dialer is for nats.go, whose own would check TLS by other rules.
type dialer struct{ e *External }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(_, address string) (net.Conn, error) {
	conn, err := d.e.dial(context.Background(), address)
	if err != nil {
		if before := d.e.dialled.Swap(&err); before == nil || (*before).Error() != err.Error() {
			d.e.options.Log.Warn("External server cannot be reached", "server", address, "error", err.Error())
		}
	} else {
		d.e.dialled.Store(nil)
	}
	return conn, err
}

// SkipTLSHandshake says that dialling has done what there is to do.
func (d dialer) SkipTLSHandshake() bool { return true }

// untrusted reports whether an error is that the server's certificate is not what it should be.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
