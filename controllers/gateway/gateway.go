// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// maxMessageBytes bounds requests: the longest has a path of 4 KiB.
	maxMessageBytes = 16 << 10
	// maxHeaderBytes bounds what comes before them.
	maxHeaderBytes = 16 << 10
	// maxStreams that one connection may have.
	maxStreams = 64
	// handshakeTimeout bounds TLS and HTTP/2 after the ClientHello.
	handshakeTimeout = 10 * time.Second
	// stopTimeout is what open requests get to end in when the gateway stops.
	stopTimeout = 5 * time.Second
)

// Gateway is made by New.
type Gateway struct {
	options Options
	front   *passthrough.Server
	server  *grpc.Server
	// stop tells open runs to go elsewhere.
	stop    context.CancelFunc
	service *service
	// outbound makes connections to peers for this cluster's pods.
	outbound *outbound
	// controlled are the control connections of peers.
	controlled controlled
	// names of data connections.
	names reverse.Names
	// passes are connections that are passed through.
	passes *passthrough.Metrics
	// uses is the audit trail.
	uses *audit.Uses
	// waiters for receiving agents.
	waiters waiters
	// expiries of PeerGrants.
	expiries expiries
}

// New returns a Gateway; Serve runs it.
func New(o Options) (*Gateway, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	counted, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	connections, err := passthrough.NewMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		options: o, passes: connections, uses: audit.NewUses(o.Log, o.Registerer),
		names: reverse.Names{Key: o.ChannelKey, Own: o.Outbound.Own, Clock: o.Clock},
	}
	registry := reverse.NewRegistry(g.names)
	g.front, err = passthrough.New(passthrough.Options{
		LocalName: pki.GatewayServerName, Lookup: g.lookup, Ended: g.passed, Limits: o.Limits, Metrics: connections,
		Data: registry, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	if g.outbound, err = newOutbound(o, g.front, registry); err != nil {
		return nil, err
	}
	trusted := newTrust(o.Client, o.Clock, o.Issuer)
	g.server = grpc.NewServer(
		grpc.Creds(newServerCredentials(o.Certificate, trusted)),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ReadBufferSize(4<<10),
		grpc.KeepaliveParams(
			keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: 30 * time.Second, Timeout: 20 * time.Second},
		),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	stopping, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.service = &service{
		options: o, rejections: audit.NewRejections(o.Log, o.Registerer, o.Clock), trust: trusted, limits: newPeerLimits(o),
		metrics: counted, waiters: &g.waiters, log: o.Log, stopping: stopping, registry: registry,
		controlled: &g.controlled,
	}
	wirev1.RegisterGatewayServer(g.server, g.service)
	return g, nil
}

// Serve accepts connections until the context ends, lets what is under way end within bounds and returns nil, or the
// error that ended the listener early.
func (g *Gateway) Serve(ctx context.Context, listener *net.TCPListener) error {
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(g.front.Local()) }()
	dialling, stopDialling := context.WithCancel(ctx)
	var dialled sync.WaitGroup
	dialled.Go(func() { g.outbound.run(dialling) })
	defer dialled.Wait()
	defer stopDialling()
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		g.stopServer()
	})
	err := g.front.Serve(ctx, listener)
	g.expiries.stop()
	if unhook() { // the listener failed
		g.stopServer()
	} else {
		<-stopped
	}
	if ended := <-served; err == nil && ended != nil && !errors.Is(ended, net.ErrClosed) &&
		!errors.Is(ended, grpc.ErrServerStopped) {
		err = ended
	}
	return err
}

// ServeTunnels gives the pods of this cluster that connect to the listener connections to peers, until the context
// ends. It returns nil then, or the error that ended the listener early. Connections end with Serve.
func (g *Gateway) ServeTunnels(ctx context.Context, listener *net.TCPListener) error {
	return g.outbound.server.Serve(ctx, listener)
}

// PeersChanged follows Peers that were made, changed or deleted.
func (g *Gateway) PeersChanged() {
	g.EndRevoked("")
	g.endControls()
	g.outbound.follow()
}

func (g *Gateway) stopServer() {
	g.stop()
	forced := time.AfterFunc(stopTimeout, g.server.Stop)
	defer forced.Stop()
	g.server.GracefulStop()
}
