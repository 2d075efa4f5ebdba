// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// Port of the service, where an address names none.
	Port = "8443"
	// MaxMessage is the longest payload in bytes that any Queue takes. Most take less: spec.limits.maxMessageSize.
	MaxMessage = 32 << 20

	// DefaultRetryFor is how long calls are repeated that no member answers.
	DefaultRetryFor = time.Minute

	// maxAnswer is the longest answer in bytes: twice the longest message, with what is about it.
	maxAnswer = 2*MaxMessage + 1<<20
	// connectTimeout bounds how long connecting takes, TLS included.
	connectTimeout = 20 * time.Second
	// aliveTime and aliveTimeout find a member that went away without a word.
	aliveTime, aliveTimeout = 30 * time.Second, 10 * time.Second
)

// Client of a Queue. It is safe for concurrent use. Its connection is made by the first call, and again when it breaks.
type Client struct {
	service  messagesv1.MessageServiceClient
	conn     *grpc.ClientConn
	last     *connection
	retryFor time.Duration
}

type settings struct {
	tls       *tls.Config
	token     func(context.Context) (string, error)
	dial      func(ctx context.Context, address string) (net.Conn, error)
	userAgent string
	retryFor  time.Duration
}

// Option of a Client.
type Option func(*settings)

// WithTLS verifies the Queue's certificate with the CAs of the configuration, and shows the client's certificate if it
// has one. ServerName defaults to the host of the address. Without this option the CAs are those of the system; the
// ConfigMap QUEUE-ca has the CA of a Queue.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithToken authenticates by a token of the Queue's spec.authentication.tokens.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the token before each call, so that it can be rotated. It must be safe for concurrent use.
// Its error is that of the call.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(s *settings) { s.token = source }
}

// WithDialer makes connections by another way than TCP to the address.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithUserAgent names the program, in front of the name of this library.
func WithUserAgent(name string) Option { return func(s *settings) { s.userAgent = name } }

// WithRetryFor bounds how long a call is repeated; 0: it is made once. Keep it below spec.duplicateWindow of the Queue:
// a put that is repeated later is stored a second time.
func WithRetryFor(d time.Duration) Option { return func(s *settings) { s.retryFor = d } }

// New returns a client of the Queue at an address, HOST or HOST:PORT. It connects by TLS only, and not before the first
// call.
func New(address string, options ...Option) (*Client, error) {
	s := settings{retryFor: DefaultRetryFor, dial: func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	for _, option := range options {
		option(&s)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host, address = address, net.JoinHostPort(address, Port)
	}
	if host == "" {
		return nil, fmt.Errorf("queue address %q has no host: give HOST or HOST:PORT", address)
	}
	config := s.tls.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	c := &Client{retryFor: s.retryFor, last: &connection{}}
	dialing := []grpc.DialOption{
		grpc.WithTransportCredentials(&handshakes{credentials.NewTLS(config), c.last}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := s.dial(ctx, address)
			if err != nil {
				c.last.record(err)
			}
			return conn, err
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveTime, Timeout: aliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithUserAgent(s.userAgent),
	}
	if s.token != nil {
		dialing = append(dialing, grpc.WithPerRPCCredentials(bearer(s.token)))
	}
	// Names are resolved at each connection, by the dialer.
	if c.conn, err = grpc.NewClient("passthrough:///"+config.ServerName, dialing...); err != nil {
		return nil, fmt.Errorf("make a client of queue %s: %w", address, err)
	}
	c.service = messagesv1.NewMessageServiceClient(c.conn)
	return c, nil
}

// Close ends the connection and the calls that wait.
func (c *Client) Close() error { return c.conn.Close() }

// Service makes calls with all their fields, each once.
func (c *Client) Service() messagesv1.MessageServiceClient { return c.service }

// ConnectionError says why the last attempt to connect failed, with its type, for example
// *[tls.CertificateVerificationError]; nil if it did not. Errors of the package's own calls wrap it. Those of
// [Client.Service] have its text alone.
func (c *Client) ConnectionError() error { return c.last.error() }

// bearer is a token, which is shown over TLS only.
type bearer func(context.Context) (string, error)

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if token == "" {
		return nil, errors.New("the token is empty")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return true }
