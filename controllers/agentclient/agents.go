// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// agentTimeout bounds a question to an agent: it is in the same cluster and answers from memory.
	agentTimeout = 1500 * time.Millisecond
	// idleLimit is how long a connection that nobody uses is kept.
	idleLimit = time.Minute
	// maxMessageBytes bounds what is read from an agent or a gateway.
	maxMessageBytes = 256 << 10
)

// Credentials give the manager's own certificate. *pki.Holder is one.
type Credentials interface {
	Certificate(ctx context.Context) (*tls.Certificate, *pki.CA, error)
}

// Options of the clients.
type Options struct {
	Credentials Credentials
	Clock       clock.PassiveClock
	// Timeout of a question, connecting included. Zero stands for 1.5s to an agent and 10s to another cluster's gateway.
	Timeout time.Duration
}

// agents keeps a connection to every agent that was asked within the last minute.
type agents struct {
	options Options

	mu          sync.Mutex
	connections map[Target]*connection
}

type connection struct {
	conn *grpc.ClientConn
	log  *handshakeLog
	used time.Time
}

var _ Agents = (*agents)(nil)

// NewAgents returns a client of agents that is safe for concurrent use and reuses connections.
func NewAgents(o Options) Agents {
	o.Timeout = cmp.Or(o.Timeout, agentTimeout)
	return &agents{options: o, connections: map[Target]*connection{}}
}

func (a *agents) Report(ctx context.Context, target Target) (*wirev1.Report, error) {
	return ask(ctx, a, target, "report", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.Report, error) {
		response, err := wirev1.NewAgentClient(conn).GetReport(ctx, &wirev1.GetReportRequest{})
		return response.GetReport(), err
	})
}

func (a *agents) Profile(ctx context.Context, target Target) (*wirev1.NodeMeasurement, error) {
	return ask(ctx, a, target, "profile", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.NodeMeasurement, error) {
		response, err := wirev1.NewNodeAgentClient(conn).GetProfile(ctx, &wirev1.GetProfileRequest{})
		return response.GetMeasurement(), err
	})
}

func (a *agents) HTTPReport(ctx context.Context, target Target) (*wirev1.HTTPReport, error) {
	return ask(ctx, a, target, "report", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.HTTPReport, error) {
		response, err := wirev1.NewHTTPAgentClient(conn).GetHTTPReport(ctx, &wirev1.GetHTTPReportRequest{})
		return response.GetReport(), err
	})
}

func (a *agents) QueueReport(ctx context.Context, target Target) (*wirev1.QueueReport, error) {
	return ask(ctx, a, target, "report", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.QueueReport, error) {
		response, err := wirev1.NewQueueAgentClient(conn).GetQueueReport(ctx, &wirev1.GetQueueReportRequest{})
		return response.GetReport(), err
	})
}

// ask puts a question to an agent. One that answers with nothing is of another version.
func ask[Answer any](ctx context.Context, a *agents, target Target, what string,
	question func(context.Context, *grpc.ClientConn) (*Answer, error),
) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()
	conn, err := a.connection(ctx, target)
	if err != nil {
		return nil, err
	}
	answer, err := question(ctx, conn)
	if err != nil {
		return nil, a.failed(target, err)
	}
	if answer == nil {
		return nil, fmt.Errorf("asking the agent at %s for its %s: %w: it answered without one", target.Address, what, ErrIncompatible)
	}
	return answer, nil
}

// connection returns one to the target, new or used, and closes those that have been idle for long.
func (a *agents) connection(ctx context.Context, target Target) (*grpc.ClientConn, error) {
	pair, ca, err := a.options.Credentials.Certificate(ctx)
	if err != nil {
		return nil, fmt.Errorf("taking the manager's certificate: %w", err)
	}
	roots, err := pki.ParseBundle(ca.CertificatePEM)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Clock.Now()
	for key, idle := range a.connections {
		if now.Sub(idle.used) > idleLimit {
			idle.conn.Close()
			delete(a.connections, key)
		}
	}
	if known := a.connections[target]; known != nil {
		known.used = now
		return known.conn, nil
	}
	transport := newCredentials(pki.ClientConfig(pair, pki.Pool(roots), target.ServerName))
	conn, err := grpc.NewClient("passthrough:///"+target.Address,
		grpc.WithTransportCredentials(transport),
		grpc.WithAuthority(target.ServerName),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to the agent at %s: %w", target.Address, err)
	}
	a.connections[target] = &connection{conn: conn, log: transport.log, used: now}
	return conn, nil
}

// failed forgets the connection, so that the next question begins with fresh credentials and no back-off, and types the error.
func (a *agents) failed(target Target, err error) error {
	kind := ErrUnreachable
	a.mu.Lock()
	if known := a.connections[target]; known != nil {
		if distrust(known.log.last()) {
			kind = ErrUntrusted
		}
		known.conn.Close()
		delete(a.connections, target)
	}
	a.mu.Unlock()
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		kind = ErrUntrusted
	case codes.Unimplemented, codes.ResourceExhausted:
		kind = ErrIncompatible
	}
	return fmt.Errorf("asking the agent at %s: %w: %w", target.Address, kind, err)
}
