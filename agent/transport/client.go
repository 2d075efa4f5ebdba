// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/longpath"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Dialer makes connections to one address, of the other cluster unless DialOwn is used.
type Dialer struct {
	// Address is a host and a port.
	Address string
	Files   *Files
	// CAFile vouches for servers of the other cluster; empty: PeerCA.
	CAFile string
	// Counter counts the bytes of all connections; nil: nobody does.
	Counter *Counter
	// Pace bounds how fast all connections write; nil: nothing does.
	Pace *Pace
	// Connect makes what is below TLS; nil: TCP.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout bounds making a connection, its handshake included; 0: handshakeTimeout.
	Timeout time.Duration
	// Adapted is told the path of each new connection, which is adapted to it; nil: nobody is.
	Adapted func(longpath.Path)
	// Eager has requests go out with the last message of the handshake. A Client is ready then before the server has
	// said whether it believes it: the first call fails if it does not, and Untrusted says why.
	Eager bool
}

func (d *Dialer) timeout() time.Duration { return cmp.Or(d.Timeout, handshakeTimeout) }

// Client is a connection to a server of the other cluster. It is made when it is first used.
type Client struct {
	*grpc.ClientConn
	trust *trust
}

// Dial returns a connection to the server with a name behind the dialer's address.
func (d *Dialer) Dial(serverName string) (*Client, error) {
	return d.dial(cmp.Or(d.CAFile, PeerCA), serverName)
}

// DialOwn is Dial for a server of the agent's own cluster.
func (d *Dialer) DialOwn(serverName string) (*Client, error) { return d.dial(ClusterCA, serverName) }

func (d *Dialer) dial(caFile, serverName string) (*Client, error) {
	config, err := d.Files.clientConfig(caFile, serverName)
	if err != nil {
		return nil, err
	}
	t := &trust{broken: make(chan struct{})}
	conn, err := grpc.NewClient("passthrough:///"+d.Address,
		grpc.WithTransportCredentials(clientCredentials{credentials.NewTLS(config), t, d.Eager}),
		grpc.WithContextDialer(d.connect),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second},
			MinConnectTimeout: d.timeout(),
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.Address, err)
	}
	return &Client{ClientConn: conn, trust: t}, nil
}

func (d *Dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	connect := d.Connect
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	conn, err := connect(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	path := longpath.Adapt(conn)
	if d.Adapted != nil {
		d.Adapted(path)
	}
	conn = d.Counter.Count(conn)
	if d.Pace != nil {
		conn = pacedConn{conn, d.Pace}
	}
	return conn, nil
}

// Ready waits until the connection is made, trying again with growing pauses of at most 10 s. It ends early when there
// is no trust.
func (c *Client) Ready(ctx context.Context) error {
	// The state of the connection does not change when further tries fail, so what they find out has to wake up the
	// wait.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.trust.broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		c.Connect()
		state := c.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if err := c.Untrusted(); err != nil {
			return err
		}
		if !c.WaitForStateChange(ctx, state) {
			if err := c.Untrusted(); err != nil {
				return err
			}
			return ctx.Err()
		}
	}
}

// Untrusted returns why one side does not believe the other, nil if nothing of the kind was seen.
func (c *Client) Untrusted() error {
	c.trust.mu.Lock()
	defer c.trust.mu.Unlock()
	if c.trust.err == nil {
		return nil
	}
	advice := "compare caBundle of the Peers on both sides with the ConfigMap lighterage-ca of the other cluster"
	if outdated(c.trust.err) {
		advice = "certificates of runs are valid for a few hours, so check the clocks of both clusters"
	}
	return failure.New(
		wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, "no trust between this cluster and %s (%w): %s", c.Target(),
		c.trust.err, advice,
	)
}

// outdated reports whether a handshake failed because the server's certificate is not valid by this side's clock.
func outdated(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// Target returns the address that the connection goes to.
func (c *Client) Target() string {
	const scheme = "passthrough:///"
	return c.ClientConn.Target()[len(scheme):]
}

// trust keeps the last handshake failure that no waiting fixes. grpc tells of them in words only.
type trust struct {
	mu     sync.Mutex
	err    error
	broken chan struct{} // closed with the first error
}

// note looks at an error of a handshake, or of reading: a server that does not believe a client says so in an alert
// after the client's part of the handshake has ended.
func (t *trust) note(err error) {
	if err == nil {
		return
	}
	var verification *tls.CertificateVerificationError
	var operation *net.OpError
	alert := errors.As(err, &operation) && operation.Op == "remote error"
	if !errors.As(err, &verification) && !alert {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		close(t.broken)
	}
	t.err = err
}

type clientCredentials struct {
	credentials.TransportCredentials
	trust *trust
	eager bool
}

func (c clientCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		c.trust.note(err)
		return nil, nil, err
	}
	trusted := &trustedConn{Conn: conn, trust: c.trust, heard: make(chan struct{})}
	if c.eager {
		trusted.first = emptySettings
	}
	return trusted, info, nil
}

func (c clientCredentials) Clone() credentials.TransportCredentials {
	return clientCredentials{c.TransportCredentials.Clone(), c.trust, c.eager}
}

// emptySettings is a SETTINGS frame of HTTP/2 without settings. gRPC's client sends no request before it has read the
// server's first SETTINGS, which come a round-trip time after the handshake; HTTP/2 itself lets a client send at once
// (RFC 9113, section 3.4). With this one before them, requests go out with the handshake's last message, and the
// server's own settings hold from when they come. The server passes over the acknowledgement that it gets for this one.
const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// trustedConn is what gRPC reads and writes.
type trustedConn struct {
	net.Conn
	trust *trust
	// first is read before anything that the server sends.
	first string
	// heard is closed when reading has failed, and what the server said last is noted.
	heard chan struct{}
	once  sync.Once
}

func (c *trustedConn) Read(p []byte) (int, error) {
	if c.first != "" {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.trust.note(err)
	if err != nil {
		c.once.Do(func() { close(c.heard) })
	}
	return n, err
}

// Write implements net.Conn. A server that does not believe the client closes the connection behind its alert, and the
// error of a write must not be known before that has been read, which gRPC does all the time.
func (c *trustedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		select {
		case <-c.heard:
		case <-time.After(lingerTime):
		}
	}
	return n, err
}
