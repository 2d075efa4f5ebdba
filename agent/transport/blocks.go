// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// The protocols that a data server speaks, as ALPN names them. Blocks have connections of their own, which are TLS and
// nothing else: HTTP/2 copies every byte three times more and takes a fifth more CPU time
// (docs/decisions/012-blocks-without-grpc.md).
const (
	grpcProtocol   = "h2"
	blocksProtocol = "lighterage-blocks/1"
	// earlyProtocol is that of connections for blocks that may be made before the session. Servers of earlier releases
	// do not speak it, and so end the handshake.
	earlyProtocol = "lighterage-blocks/2"
)

// sessionWindow is how many bytes of a session may be on their way to the receiver. gRPC begins with 64 KiB, which a
// long path takes for one round trip each, and goes up to 16 MiB by itself.
const sessionWindow = 1 << 20

// What linger waits for and takes at most.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 10
)

// DialBlocks makes a connection that carries blocks to the server with a name behind the dialer's address.
func (d *Dialer) DialBlocks(ctx context.Context, serverName string) (net.Conn, error) {
	return d.dialBlocks(ctx, serverName, blocksProtocol)
}

// DialEarly is DialBlocks before there is a session. It fails where the server is of a release that does not serve
// this. What is written first is the claim, see package protocol.
func (d *Dialer) DialEarly(ctx context.Context, serverName string) (net.Conn, error) {
	return d.dialBlocks(ctx, serverName, earlyProtocol)
}

func (d *Dialer) dialBlocks(ctx context.Context, serverName, protocol string) (net.Conn, error) {
	config, err := d.Files.clientConfig(PeerCA, serverName)
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{protocol}
	ctx, cancel := context.WithTimeout(ctx, d.timeout())
	defer cancel()
	raw, err := d.connect(ctx, d.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.Address, err)
	}
	batches := newBatchedConn(raw)
	conn := tls.Client(batches, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("connect to %s: %w", d.Address, err)
	}
	batches.batch()
	return &blocksConn{conn, batches}, nil
}

// DataServer serves the sender of one Transfer and nobody else: gRPC, and connections that carry blocks.
type DataServer struct {
	*grpc.Server
	config *tls.Config
	blocks func(net.Conn)
}

// NewDataServer returns a server that hands connections which carry blocks to a function and closes them when it
// returns.
func NewDataServer(files *Files, sender Sender, blocks func(net.Conn)) *DataServer {
	config := files.serverConfig(PeerCA, sender.check, grpcProtocol, blocksProtocol, earlyProtocol)
	return &DataServer{
		config: config,
		blocks: blocks,
		Server: grpc.NewServer(append(serverOptions(),
			grpc.Creds(shaken{}),
			grpc.MaxRecvMsgSize(maxMessage),
			grpc.MaxSendMsgSize(maxMessage),
			grpc.StaticStreamWindowSize(sessionWindow),
			grpc.StaticConnWindowSize(sessionWindow),
			grpc.MaxConcurrentStreams(4),
		)...),
	}
}

// Serve accepts connections until the server is stopped. Each has handshakeTimeout to say who it is.
func (s *DataServer) Serve(l net.Listener) error {
	shaking := &shakingListener{Listener: l, conns: make(chan net.Conn), closed: make(chan struct{})}
	go shaking.accept(s.config, s.blocks)
	return s.Server.Serve(shaking)
}

// shakingListener gives out the connections that have ended their handshake and speak gRPC.
type shakingListener struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	err    error // of the Listener; set before closed is
}

func (l *shakingListener) accept(config *tls.Config, blocks func(net.Conn)) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				// Too many open files: what is open ends some time.
				time.Sleep(10 * time.Millisecond)
				continue
			}
			l.stop(err)
			return
		}
		go l.shake(newBatchedConn(conn), config, blocks)
	}
}

func (l *shakingListener) shake(raw *batchedConn, config *tls.Config, blocks func(net.Conn)) {
	conn := tls.Server(raw, config)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	err := conn.HandshakeContext(ctx)
	cancel()
	if err != nil {
		// Who is not admit is told so in TLS's own words, and nobody else need know.
		linger(raw)
		return
	}
	if p := conn.ConnectionState().NegotiatedProtocol; p == blocksProtocol || p == earlyProtocol {
		raw.batch()
		blocks(&blocksConn{conn, raw})
		_ = conn.Close()
		return
	}
	select {
	case l.conns <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// linger closes a connection after the other side has, or had time to: closing while something is unread resets the
// connection, and what was said last, such as why, is lost.
func linger(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, conn, lingerBytes)
	_ = conn.Close()
}

func (l *shakingListener) stop(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.closed)
	})
}

// Accept implements net.Listener.
func (l *shakingListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, l.err
	}
}

// Close implements net.Listener.
func (l *shakingListener) Close() error {
	l.stop(net.ErrClosed)
	return l.Listener.Close()
}

// shaken are the credentials of a server whose connections have ended their handshake before gRPC sees them.
type shaken struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (shaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*tls.Conn)
	if !ok || c.ConnectionState().NegotiatedProtocol != grpcProtocol {
		return nil, nil, errors.New("the connection does not speak gRPC")
	}
	return conn, credentials.TLSInfo{
		State:          c.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ClientHandshake implements credentials.TransportCredentials. A server has no use for it.
func (shaken) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are credentials of a server")
}

// Info implements credentials.TransportCredentials.
func (shaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (shaken) Clone() credentials.TransportCredentials { return shaken{} }

// OverrideServerName implements credentials.TransportCredentials.
func (shaken) OverrideServerName(string) error { return errors.New("a server has no name to override") }
