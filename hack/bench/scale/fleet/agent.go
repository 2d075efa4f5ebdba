// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// kind of an agent.
type kind int

const (
	sender kind = iota
	receiver
	member
	replica
	nodeAgent
)

func (k kind) String() string {
	return [...]string{
		"sending agents", "receiving agents", "members of Queues", "replicas of HTTPEndpoints", "node agents",
	}[k]
}

// agent is one that answers at an address of its own.
type agent struct {
	kind         kind
	namespace    string
	pod, node    string
	secret       string
	architecture string
	began        time.Time
	// mute: it is among those that Silence is about.
	mute  bool
	asked atomic.Int64
	ended atomic.Bool

	mu          sync.Mutex
	connections map[net.Conn]struct{}
}

func (a *agent) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.connections {
		conn.Close()
	}
}

func (f *Fleet) add(address netip.Addr, a *agent) {
	a.began, a.connections = time.Now(), map[net.Conn]struct{}{}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agents[address] = a
}

func (f *Fleet) remove(address netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.agents[address]; a != nil {
		delete(f.agents, address)
		go a.hangUp()
	}
}

// at returns the agent of an address.
func (f *Fleet) at(address net.Addr) *agent {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.agents[tcp.AddrPort().Addr().Unmap()]
}

// doors are where connections of the manager arrive, whatever the agent.
type doors struct {
	net.Listener
	fleet *Fleet
}

// Accept returns the connections to agents that speak. At the others it is accepted, as the kernel does for a process
// that does not.
func (d *doors) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a := d.fleet.at(conn.LocalAddr())
		switch {
		case a == nil:
			conn.Close()
		case a.mute && d.fleet.silent.Load():
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}()
		default:
			a.mu.Lock()
			a.connections[conn] = struct{}{}
			a.mu.Unlock()
			return &connection{Conn: conn, agent: a}, nil
		}
	}
}

type connection struct {
	net.Conn
	agent *agent
}

func (c *connection) Close() error {
	c.agent.mu.Lock()
	delete(c.agent.connections, c.Conn)
	c.agent.mu.Unlock()
	return c.Conn.Close()
}

// service is what all agents serve.
type service struct {
	wirev1.UnimplementedAgentServer
	wirev1.UnimplementedNodeAgentServer
	wirev1.UnimplementedHTTPAgentServer
	wirev1.UnimplementedQueueAgentServer
	fleet *Fleet
}

// asked returns the agent that a question is for, if it is one of the kinds.
func (s service) asked(ctx context.Context, kinds ...kind) (*agent, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "a call without a connection")
	}
	a := s.fleet.at(from.LocalAddr)
	for _, k := range kinds {
		if a != nil && a.kind == k {
			a.asked.Add(1)
			return a, nil
		}
	}
	return nil, status.Error(codes.Unimplemented, "no such agent is at "+from.LocalAddr.String())
}

func (s service) GetReport(ctx context.Context, _ *wirev1.GetReportRequest) (*wirev1.GetReportResponse, error) {
	a, err := s.asked(ctx, sender, receiver)
	if err != nil {
		return nil, err
	}
	return &wirev1.GetReportResponse{Report: a.report(time.Now())}, nil
}

func (s service) SetBandwidthLimit(
	context.Context, *wirev1.SetBandwidthLimitRequest,
) (*wirev1.SetBandwidthLimitResponse, error) {
	s.fleet.Bandwidths.Add(1)
	return &wirev1.SetBandwidthLimitResponse{}, nil
}

func (s service) GetProfile(ctx context.Context, _ *wirev1.GetProfileRequest) (*wirev1.GetProfileResponse, error) {
	a, err := s.asked(ctx, nodeAgent)
	if err != nil {
		return nil, err
	}
	return &wirev1.GetProfileResponse{Measurement: a.measurement()}, nil
}

func (s service) GetHTTPReport(
	ctx context.Context, _ *wirev1.GetHTTPReportRequest,
) (*wirev1.GetHTTPReportResponse, error) {
	a, err := s.asked(ctx, replica)
	if err != nil {
		return nil, err
	}
	revision := s.fleet.certificates.revision(a.namespace, a.secret)
	return &wirev1.GetHTTPReportResponse{Report: a.httpReport(time.Now(), revision)}, nil
}

func (s service) GetQueueReport(
	ctx context.Context, _ *wirev1.GetQueueReportRequest,
) (*wirev1.GetQueueReportResponse, error) {
	a, err := s.asked(ctx, member)
	if err != nil {
		return nil, err
	}
	revision := s.fleet.certificates.revision(a.namespace, a.secret)
	return &wirev1.GetQueueReportResponse{Report: a.queueReport(time.Now(), revision)}, nil
}
