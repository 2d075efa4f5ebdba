// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

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

// Callers are the queues of other clusters that may send to the queue whose agent this is. It is safe for concurrent use.
type Callers struct {
	files *Files

	mu    sync.Mutex
	peers []caller
}

// caller is another cluster.
type caller struct {
	name       string
	pool       *x509.CertPool
	namespaces []string
}

// Caller is a queue that has proved who it is.
type Caller struct {
	// Peer is the name that the cluster has here.
	Peer, Namespace, Queue string
}

// ErrNotACaller says that who calls may not send to this queue.
var ErrNotACaller = errors.New("not let in")

// NewCallers returns a set of callers that is empty. The files hold the queue's own certificate.
func NewCallers(files *Files) *Callers { return &Callers{files: files} }

// Set says who may send from now on. Connections that are there are not looked at; see Identify. After an error nothing has changed.
func (c *Callers) Set(peers []*wirev1.ChannelPeer) error {
	callers := make([]caller, 0, len(peers))
	for _, p := range peers {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(p.GetCaBundle()) {
			return fmt.Errorf("the CA bundle of peer %q holds no certificate in PEM", p.GetName())
		}
		callers = append(callers, caller{name: p.GetName(), pool: pool, namespaces: p.GetNamespaces()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = callers
	return nil
}

// May reports whether a caller that was let in earlier may send still.
func (c *Callers) May(who Caller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.peers, func(p caller) bool {
		return p.name == who.Peer && slices.Contains(p.namespaces, who.Namespace)
	})
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
	own, err := c.own()
	if err != nil {
		return Caller{}, err
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range cs.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.peers {
		_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: p.pool, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil || !slices.Contains(p.namespaces, namespace) {
			continue
		}
		// Under another's name the gateway would not know whose connection to end.
		if wirev1.ChannelServerName(p.name, namespace, own.namespace, own.name) != cs.ServerName {
			continue
		}
		return Caller{Peer: p.name, Namespace: namespace, Queue: name}, nil
	}
	return Caller{}, fmt.Errorf("%w: no PeerGrant that the queue knows of lets %q send to it; one that was just made is known in a minute or two", ErrNotACaller, path)
}

type queueName struct{ namespace, name string }

// own returns which queue this agent is of.
func (c *Callers) own() (queueName, error) {
	certificate, err := c.files.Certificate()
	if err != nil {
		return queueName{}, err
	}
	if certificate.Leaf == nil || len(certificate.Leaf.URIs) != 1 {
		return queueName{}, errors.New("the agent's own certificate does not name a queue")
	}
	namespace, name, ok := parseQueuePath(certificate.Leaf.URIs[0].Path)
	if !ok {
		return queueName{}, errors.New("the agent's own certificate does not name a queue")
	}
	return queueName{namespace, name}, nil
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

// strangerGrace is how long the connection of one who is not let in is kept: long enough to be told why.
const strangerGrace = 10 * time.Second

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
	if _, err := c.callers.Identify(secured.State); err != nil {
		time.AfterFunc(strangerGrace, func() { _ = conn.Close() })
	}
	return conn, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c callerCredentials) Clone() credentials.TransportCredentials {
	return callerCredentials{c.TransportCredentials.Clone(), c.callers}
}

// NewChannelServer returns a server that takes messages of at most so many bytes. Whoever has a certificate gets to its services, which
// have to ask FromContext.
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
			// Any at first, so that who is not let in is told in words, by who calls FromContext, rather than by a TLS alert.
			ClientAuth:             tls.RequireAnyClientCert,
			SessionTicketsDisabled: true,
		}, nil
	}
	return grpc.NewServer(append(serverOptions(),
		grpc.Creds(callerCredentials{credentials.NewTLS(config), callers}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(4),
	)...)
}
