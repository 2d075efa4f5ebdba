// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// agentTimeout bounds a question to an agent: it is in the same cluster and answers from memory.
	agentTimeout = 1500 * time.Millisecond
	// idleLimit is how long a connection is kept for the next question.
	idleLimit = 15 * time.Second
	// maxMessageBytes bounds what is read from an agent or a gateway.
	maxMessageBytes = 256 << 10
	// bufferBytes of a connection to an agent, each way: a question and its answer are small, and there may be hundreds
	// of connections.
	bufferBytes = 4 << 10
)

// Credentials give the manager's own certificate. *pki.Holder is one.
type Credentials interface {
	Certificate(ctx context.Context) (*tls.Certificate, *pki.CA, error)
}

// Options of the clients.
type Options struct {
	Credentials Credentials
	// Timeout of a question, connecting included. Zero stands for 1.5s to an agent and 10s to another cluster's
	// gateway.
	Timeout time.Duration
	// Weights are what node agents are told of namespaces; nil: nothing.
	Weights Weights
	// IdleLimit is how long a connection to an agent is kept for the next question. Zero stands for 15s.
	IdleLimit time.Duration
}

// Weights returns by which weights namespaces share accelerators.
type Weights func(ctx context.Context) (*wirev1.AcceleratorWeights, error)

// agents keeps connections to those agents only that are asked again soon.
type agents struct {
	options Options

	mu          sync.Mutex
	connections map[Target]*connection
	// roots are those of bundle, which was the cluster's CA when they were needed last.
	roots  *x509.CertPool
	bundle []byte
}

type connection struct {
	*grpc.ClientConn
	log *handshakeLog
	// idle closes it some time after it was used.
	idle *time.Timer
	used time.Time
}

var _ Agents = (*agents)(nil)

// NewAgents returns a client of agents that is safe for concurrent use.
func NewAgents(o Options) Agents {
	o.Timeout, o.IdleLimit = cmp.Or(o.Timeout, agentTimeout), cmp.Or(o.IdleLimit, idleLimit)
	return &agents{options: o, connections: map[Target]*connection{}}
}

func (a *agents) Report(ctx context.Context, target Target) (*wirev1.Report, error) {
	request := &wirev1.GetReportRequest{}
	if target.Patience > 0 {
		request.Patience = durationpb.New(target.Patience)
	}
	return ask(ctx, a, target, "report", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.Report, error) {
		response, err := wirev1.NewAgentClient(conn).GetReport(ctx, request)
		return response.GetReport(), err
	})
}

func (a *agents) Pause(ctx context.Context, target Target) error {
	_, err := ask(ctx, a, target, "end", func(ctx context.Context, conn *grpc.ClientConn) (*wirev1.PauseResponse, error) {
		return wirev1.NewAgentClient(conn).Pause(ctx, &wirev1.PauseRequest{})
	})
	return err
}

func (a *agents) Limit(ctx context.Context, target Target, bytesPerSecond uint64) error {
	_, err := ask(ctx, a, target, "limit", func(
		ctx context.Context, conn *grpc.ClientConn,
	) (*wirev1.SetBandwidthLimitResponse, error) {
		return wirev1.NewAgentClient(conn).SetBandwidthLimit(
			ctx, &wirev1.SetBandwidthLimitRequest{BandwidthLimit: bytesPerSecond},
		)
	})
	return err
}

func (a *agents) Profile(ctx context.Context, target Target) (*wirev1.NodeMeasurement, error) {
	return ask(ctx, a, target, "profile", func(
		ctx context.Context, conn *grpc.ClientConn,
	) (*wirev1.NodeMeasurement, error) {
		request := &wirev1.GetProfileRequest{}
		if a.options.Weights != nil {
			var err error
			if request.Weights, err = a.options.Weights(ctx); err != nil {
				return nil, err
			}
		}
		response, err := wirev1.NewNodeAgentClient(conn).GetProfile(ctx, request)
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

func (a *agents) SetHTTPConfig(ctx context.Context, target Target, config *wirev1.HTTPConfig) error {
	encoded, err := encode(config)
	if err != nil {
		return err
	}
	_, err = ask(ctx, a, target, "configuration", func(
		ctx context.Context, conn *grpc.ClientConn,
	) (*wirev1.SetHTTPConfigResponse, error) {
		return wirev1.NewHTTPAgentClient(conn).SetHTTPConfig(ctx, &wirev1.SetHTTPConfigRequest{Config: encoded})
	})
	return err
}

func (a *agents) SetQueueConfig(ctx context.Context, target Target, config *wirev1.QueueConfig) error {
	encoded, err := encode(config)
	if err != nil {
		return err
	}
	_, err = ask(ctx, a, target, "configuration", func(
		ctx context.Context, conn *grpc.ClientConn,
	) (*wirev1.SetQueueConfigResponse, error) {
		return wirev1.NewQueueAgentClient(conn).SetQueueConfig(ctx, &wirev1.SetQueueConfigRequest{Config: encoded})
	})
	return err
}

// encode encodes a configuration to be sent.
func encode(config proto.Message) ([]byte, error) {
	encoded, err := wirev1.MarshalConfig(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of agents: %w", err)
	}
	if len(encoded) > wirev1.MaxSentConfig {
		return nil, fmt.Errorf("sending a configuration of %d bytes, of which up to %d can be sent: %w", len(encoded),
			wirev1.MaxSentConfig, ErrIncompatible)
	}
	return encoded, nil
}

// ask puts a question to an agent. One that answers with nothing is of another version.
func ask[Answer any](ctx context.Context, a *agents, target Target, what string,
	question func(context.Context, *grpc.ClientConn) (*Answer, error),
) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout+target.Patience)
	defer cancel()
	target.Patience = 0 // Questions with and without it share a connection.
	conn, err := a.connection(ctx, target)
	if err != nil {
		return nil, err
	}
	answer, err := question(ctx, conn.ClientConn)
	if err != nil || !target.Soon {
		a.close(target, conn)
	}
	if err != nil {
		return nil, failed(target, conn.log, err)
	}
	if answer == nil {
		return nil, fmt.Errorf(
			"asking the agent at %s for its %s: %w: it answered without one", target.Address, what, ErrIncompatible,
		)
	}
	return answer, nil
}

// connection returns one to the target: the one that was kept, or a new one.
func (a *agents) connection(ctx context.Context, target Target) (*connection, error) {
	pair, ca, err := a.options.Credentials.Certificate(ctx)
	if err != nil {
		return nil, fmt.Errorf("taking the manager's certificate: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.connections[target]; known != nil {
		known.used = time.Now()
		known.idle.Reset(a.options.IdleLimit)
		return known, nil
	}
	if !bytes.Equal(a.bundle, ca.CertificatePEM) {
		roots, err := pki.ParseBundle(ca.CertificatePEM)
		if err != nil {
			return nil, fmt.Errorf("reading the cluster's CA: %w", err)
		}
		a.roots, a.bundle = pki.Pool(roots), ca.CertificatePEM
	}
	// A session that is resumed saves neither the key exchange nor what gRPC does, which cost most.
	transport := newCredentials(pki.ClientConfig(pair, a.roots, target.ServerName))
	conn, err := grpc.NewClient("passthrough:///"+target.Address,
		grpc.WithTransportCredentials(transport),
		grpc.WithAuthority(target.ServerName),
		grpc.WithNoProxy(),
		grpc.WithReadBufferSize(bufferBytes),
		grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to the agent at %s: %w", target.Address, err)
	}
	opened := &connection{ClientConn: conn, log: transport.log, used: time.Now()}
	if target.Soon {
		opened.idle = time.AfterFunc(a.options.IdleLimit, func() { a.closeIdle(target, opened) })
		a.connections[target] = opened
	}
	return opened, nil
}

// closeIdle closes a connection, unless it was used since its time was up.
func (a *agents) closeIdle(target Target, conn *connection) {
	a.mu.Lock()
	used := time.Since(conn.used) < a.options.IdleLimit
	a.mu.Unlock()
	if !used {
		a.close(target, conn)
	}
}

// close closes a connection that nobody is to use any more, so that the next question begins with fresh credentials and
// no back-off.
func (a *agents) close(target Target, conn *connection) {
	a.mu.Lock()
	if a.connections[target] == conn {
		delete(a.connections, target)
		conn.idle.Stop()
	}
	a.mu.Unlock()
	conn.Close()
}

// failed types the error of a question.
func failed(target Target, handshake *handshakeLog, err error) error {
	kind := ErrUnreachable
	if distrust(handshake.last()) {
		kind = ErrUntrusted
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		kind = ErrUntrusted
	case codes.Unimplemented, codes.ResourceExhausted:
		kind = ErrIncompatible
	case codes.InvalidArgument, codes.FailedPrecondition:
		kind = ErrRejected
	}
	return fmt.Errorf("asking the agent at %s: %w: %w", target.Address, kind, err)
}
