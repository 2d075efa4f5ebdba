// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/lighterage/lighterage/agent/wire/chain"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// QueuePath is the identity of the members of a Queue.
func QueuePath(namespace, name string) string {
	return "/ns/" + namespace + "/queue/" + name
}

// parseQueuePath takes apart what QueuePath made.
func parseQueuePath(path string) (namespace, name string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "ns" || parts[3] != "queue" || parts[2] == "" || parts[4] == "" {
		return "", "", false
	}
	return parts[2], parts[4], true
}

// Callers are the queues that may send to the queue whose agent this is. It is safe for concurrent use.
type Callers struct {
	files *Files
	// own counts connections of queues of the same cluster; nil: they are counted as all others.
	own *Counter
	// known is replaced as a whole and never changed.
	known atomic.Pointer[callers]
}

// callers are other clusters.
type callers struct {
	roots *chain.Roots
	// serverNames by cluster and namespace.
	serverNames map[string]map[string]string
	// revokedBefore by cluster: certificates from before then are rejected.
	revokedBefore map[string]time.Time
}

// Caller is a queue that has proved who it is.
type Caller struct {
	// Peer is the name that the cluster has here; empty: it is this one.
	Peer, Namespace, Queue string
}

// ErrNotACaller says that who calls may not send to this queue.
var ErrNotACaller = errors.New("not authorized")

// NewCallers returns a set of callers that is empty. The files hold the queue's own certificate. Connections that
// Listen has accepted are counted by own once their callers have proved to be of this cluster; nil: as all others.
func NewCallers(files *Files, own *Counter) *Callers {
	c := &Callers{files: files, own: own}
	c.known.Store(&callers{roots: chain.NewRoots()})
	return c
}

// Set says who may send from now on. Connections that are there are not looked at; see Identify. After an error nothing
// has changed.
func (c *Callers) Set(peers []*wirev1.ChannelPeer) error {
	known := &callers{
		roots: chain.NewRoots(), serverNames: make(map[string]map[string]string, len(peers)),
		revokedBefore: map[string]time.Time{},
	}
	for _, p := range peers {
		certificates, err := parseBundle(p.GetCaBundle())
		if err != nil {
			return fmt.Errorf("reading the CA bundle of peer %q: %w", p.GetName(), err)
		}
		known.roots.Add(p.GetName(), certificates)
		names := make(map[string]string, len(p.GetNamespaces()))
		for _, namespace := range p.GetNamespaces() {
			names[namespace.GetName()] = namespace.GetServerName()
		}
		known.serverNames[p.GetName()] = names
		if p.GetRevokedBefore() > 0 {
			known.revokedBefore[p.GetName()] = time.Unix(p.GetRevokedBefore(), 0)
		}
	}
	c.known.Store(known)
	return nil
}

// parseBundle reads CA certificates in PEM, of which there must be one.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certificates)+1, err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return certificates, nil
}

// RevokedBefore returns before when certificates of a cluster are revoked; zero for never.
func (c *Callers) RevokedBefore(peer string) time.Time { return c.known.Load().revokedBefore[peer] }

// May reports whether a caller that was identified earlier may send still.
func (c *Callers) May(who Caller) bool {
	_, ok := c.known.Load().serverNames[who.Peer][who.Namespace]
	return ok
}

// Identify returns who is at the other end of a connection. The error of who may not send matches ErrNotACaller.
func (c *Callers) Identify(cs tls.ConnectionState) (Caller, error) {
	path, err := peerPath(cs)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrNotACaller, err)
	}
	namespace, name, ok := parseQueuePath(path)
	if !ok {
		return Caller{}, fmt.Errorf("%w: the peer is %q and only queues send to queues", ErrNotACaller, path)
	}
	known := c.known.Load()
	// Why a chain is rejected is not for a stranger to know.
	owners, _ := known.roots.Owners(cs.PeerCertificates, time.Now(), x509.ExtKeyUsageClientAuth)
	for _, owner := range owners {
		if wirev1.CertificateIssued(cs.PeerCertificates[0]).Before(known.revokedBefore[owner]) {
			return Caller{}, fmt.Errorf("%w: certificates of %q from before %s are revoked", ErrNotACaller, path,
				known.revokedBefore[owner].UTC().Format(time.RFC3339))
		}
		// Under another's name the gateway would not know whose connection to end.
		if expected, ok := known.serverNames[owner][namespace]; ok && expected != "" && expected == cs.ServerName {
			return Caller{Peer: owner, Namespace: namespace, Queue: name}, nil
		}
	}
	return Caller{}, fmt.Errorf(
		"%w: nothing that the queue knows of opens it to %q; a PeerGrant, or a Queue of its namespace, that was just made "+
			"is known in a minute or two",
		ErrNotACaller, path,
	)
}

// FromContext is Identify for a call of gRPC, as things are now.
func (c *Callers) FromContext(ctx context.Context) (Caller, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Caller{}, fmt.Errorf("%w: nothing is known of the connection", ErrNotACaller)
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Caller{}, fmt.Errorf("%w: the connection is not TLS", ErrNotACaller)
	}
	return c.Identify(info.State)
}

const (
	// strangerGrace is how long the connection of a client that is not authorized is kept: long enough to be told why.
	strangerGrace = 10 * time.Second
	// strangerBytes is what it is sent after the TLS handshake at most. Gateways take a connection on which more comes
	// from here for one of an authenticated client.
	strangerBytes = 2 << 10
)

// callerCredentials do not let strangers stay.
type callerCredentials struct {
	credentials.TransportCredentials
	callers *Callers
}

// ServerHandshake implements credentials.TransportCredentials.
func (c callerCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	secured, ok := info.(credentials.TLSInfo)
	if !ok {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("TLS gave %T where credentials.TLSInfo was expected", info)
	}
	who, err := c.callers.Identify(secured.State)
	if err != nil {
		time.AfterFunc(strangerGrace, func() { _ = conn.Close() })
		stranger := &boundedConn{Conn: conn}
		stranger.left.Store(strangerBytes)
		return stranger, info, nil //nolint:nilerr // Who it is shows when it asks for something, and it is told why then.
	}
	if who.Peer == "" {
		recount(raw, c.callers.own)
	}
	return conn, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c callerCredentials) Clone() credentials.TransportCredentials {
	return callerCredentials{c.TransportCredentials.Clone(), c.callers}
}

// boundedConn is closed rather than written more to than is left.
type boundedConn struct {
	net.Conn
	left atomic.Int64
}

var errStranger = errors.New("a client that is not authorized asks for too much")

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) < 0 {
		_ = c.Close()
		return 0, errStranger
	}
	return c.Conn.Write(p)
}

// NewChannelServer returns a server that takes messages of at most so many bytes. Whoever has a certificate gets to its
// services, which have to ask FromContext.
func NewChannelServer(callers *Callers, maxMessage int) *grpc.Server {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{grpcProtocol}}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate, err := callers.files.Certificate()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			NextProtos:   []string{grpcProtocol},
			Certificates: []tls.Certificate{*certificate},
			// Any at first, so that a client that is not authorized is told in words, by who calls FromContext, rather
			// than by a TLS alert.
			ClientAuth: tls.RequireAnyClientCert,
			// Called before the client's signature is verified, which is costly for keys that nobody needs.
			VerifyConnection:       func(cs tls.ConnectionState) error { return chain.Check(cs.PeerCertificates) },
			SessionTicketsDisabled: true,
		}, nil
	}
	return grpc.NewServer(append(serverOptions(),
		grpc.Creds(callerCredentials{credentials.NewTLS(config), callers}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(4),
	)...)
}
