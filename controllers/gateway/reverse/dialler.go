// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	// controlConnections is how many each replica keeps to a peer, which may lead to different replicas there.
	controlConnections = 2
	// maxDialling is how many data connections to a peer are made at the same time.
	maxDialling = 128
	// retryFirst and retryMost bound the pause before a control connection is made again.
	retryFirst, retryMost = 250 * time.Millisecond, 15 * time.Second
	// dialTime bounds what it takes to make a data connection; the other gateway does not wait much longer.
	dialTime = 7 * time.Second
	// acceptTime bounds what it takes to make a control connection.
	acceptTime = 15 * time.Second
	// aliveTime is how often a control connection on which nothing moves is looked at, and how long that may take.
	// Servers of gRPC reject clients that do so more often than each 10 seconds.
	aliveTime = 15 * time.Second
)

// DiallerOptions of NewDialler.
type DiallerOptions struct {
	// Gateway of the peer, by its Dial.
	Gateway agentclient.Gateway
	// Certificate of this gateway.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Accept takes a data connection as one that the gateway's own port has accepted.
	Accept func(*net.TCPConn) bool
	// Count is told what became of each data connection that was asked for.
	Count func(result string)
	Log   logr.Logger
}

// Results that are counted.
const (
	ResultConnected = "connected"
	ResultFailed    = "failed"
	ResultBusy      = "busy"
)

// Dialler keeps control connections to the gateway of a peer.
type Dialler struct {
	options  DiallerOptions
	dialling chan struct{}

	mu sync.Mutex
	// since when the control connections are there.
	since map[int]time.Time
	err   error
	at    time.Time
}

// NewDialler returns one; Run runs it.
func NewDialler(o DiallerOptions) *Dialler {
	if o.Gateway.Dial == nil {
		o.Gateway.Dial = new(net.Dialer).DialContext
	}
	return &Dialler{options: o, dialling: make(chan struct{}, maxDialling), since: map[int]time.Time{}}
}

// Run keeps control connections until the context ends. Data connections that were made go on after that.
func (d *Dialler) Run(ctx context.Context) {
	var all sync.WaitGroup
	for slot := range controlConnections {
		all.Go(func() { d.keep(ctx, slot) })
	}
	all.Wait()
}

// State of the control connections.
func (d *Dialler) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := State{Connections: len(d.since)}
	for _, since := range d.since {
		if s.Since.IsZero() || since.Before(s.Since) {
			s.Since = since
		}
	}
	if d.err != nil {
		reason, _ := tunnel.ReasonOf(d.err)
		// The other side may have written it.
		s.Error, s.Reason, s.ErrorTime = conditions.Shorten(d.err.Error()), reason, d.at
	}
	return s
}

func (d *Dialler) keep(ctx context.Context, slot int) {
	pause := retryFirst
	for ctx.Err() == nil {
		made, err := d.control(ctx, slot)
		if ctx.Err() != nil {
			return
		}
		d.lost(slot, err)
		d.options.Log.V(1).Info("Control connection ended", "endpoint", d.options.Gateway.Endpoint, "cause", err.Error())
		if made {
			pause = retryFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(pause*2, retryMost)
	}
}

func (d *Dialler) lost(slot int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, slot)
	d.err, d.at = err, time.Now()
}

func (d *Dialler) made(slot int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since[slot] = time.Now()
}

// control makes a control connection and returns whether it was accepted, and the error that ended it.
func (d *Dialler) control(ctx context.Context, slot int) (made bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pair, err := d.options.Certificate(nil)
	if err != nil {
		return false, fmt.Errorf("taking the gateway's certificate: %w", err)
	}
	conn, err := agentclient.Connect(d.options.Gateway, pair, acceptTime,
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveTime, Timeout: aliveTime}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: acceptTime}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry())
	if err != nil {
		return false, err
	}
	defer conn.Close()
	accepting := time.AfterFunc(acceptTime, cancel)
	defer accepting.Stop()
	stream, err := wirev1.NewGatewayClient(conn).Control(ctx)
	if err != nil {
		return false, conn.Explain(err)
	}
	hello := &wirev1.ControlHello{ProtocolVersion: wirev1.ProtocolVersion, Version: wirev1.Version}
	// An error of Send is io.EOF; Recv has the cause.
	_ = stream.Send(&wirev1.ControlRequest{Message: &wirev1.ControlRequest_Hello{Hello: hello}})
	first, err := stream.Recv()
	if err != nil {
		return false, conn.Explain(err)
	}
	if !accepting.Stop() || first.GetAccepted() == nil {
		return false, fmt.Errorf("%w: the gateway at %s did not accept the control connection", agentclient.ErrIncompatible,
			d.options.Gateway.Endpoint)
	}
	d.made(slot)
	return true, d.serve(ctx, conn, stream)
}

// serve makes the data connections that are asked for.
func (d *Dialler) serve(
	ctx context.Context, conn *agentclient.Connection, stream wirev1.Gateway_ControlClient,
) error {
	var sending sync.Mutex
	failed := func(name string) {
		sending.Lock()
		defer sending.Unlock()
		_ = stream.Send(&wirev1.ControlRequest{
			Message: &wirev1.ControlRequest_Failed{Failed: &wirev1.DataFailed{ServerName: name}},
		})
	}
	for {
		next, err := stream.Recv()
		if err != nil {
			return conn.Explain(err)
		}
		name := next.GetConnect().GetServerName()
		if !isDataName(name) {
			continue // of a later release
		}
		select {
		case d.dialling <- struct{}{}:
		default:
			d.options.Count(ResultBusy)
			failed(name)
			continue
		}
		// It goes on when the control connection is lost meanwhile, since the other side still waits.
		go func() {
			defer func() { <-d.dialling }()
			if err := d.data(context.WithoutCancel(ctx), name); err != nil {
				d.options.Count(ResultFailed)
				d.options.Log.V(1).Info("Data connection could not be made", "endpoint", d.options.Gateway.Endpoint,
					"cause", err.Error())
				failed(name)
				return
			}
			d.options.Count(ResultConnected)
		}()
	}
}

// data makes a data connection.
func (d *Dialler) data(ctx context.Context, name string) error {
	hello, err := clientHello(name) //nolint:contextcheck // nothing leaves the process
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	for {
		conn, err := d.dial(ctx, hello)
		if err == nil {
			if !d.options.Accept(conn) {
				return errors.New("this gateway is being stopped")
			}
			return nil
		}
		switch reason, _ := tunnel.ReasonOf(err); reason {
		case tunnel.ProxyAuthentication, tunnel.ProxyRefused: // it would say so again
			return err
		}
		select { // a replica that is being stopped does not accept connections, another one will
		case <-ctx.Done():
			return err
		case <-time.After(retryFirst):
		}
	}
}

func (d *Dialler) dial(ctx context.Context, hello []byte) (*net.TCPConn, error) {
	conn, err := d.options.Gateway.Dial(ctx, "tcp", d.options.Gateway.Endpoint)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("a data connection is %T, not TCP", conn)
	}
	deadline, _ := ctx.Deadline()
	err = tcp.SetWriteDeadline(deadline)
	if err == nil {
		_, err = tcp.Write(hello)
	}
	if err == nil {
		err = tcp.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = tcp.Close()
		return nil, fmt.Errorf("beginning a data connection: %w", err)
	}
	return tcp, nil
}
