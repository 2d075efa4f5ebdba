// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	serverName = "uid.send.lighterage.internal"
	// patience is for a busy machine.
	patience = time.Minute
	// closed is where nobody listens. A port that was free a moment ago may be somebody's by now.
	closed = "127.0.0.1:1"
)

// fixedCredentials are of a manager.
type fixedCredentials struct{ ca *pki.CA }

func (f fixedCredentials) Certificate(context.Context) (*tls.Certificate, *pki.CA, error) {
	pair, err := issue(f.ca, pki.ManagerPath)
	return pair, f.ca, err
}

func newCA(t testing.TB) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA("east", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(ca *pki.CA, path string, names ...string) (*tls.Certificate, error) {
	issued, err := ca.Issue(
		pki.Template{Identity: pki.Identity{Cluster: "east", Path: path}, DNSNames: names, Lifetime: time.Hour}, time.Now(),
	)
	if err != nil {
		return nil, err
	}
	pair, err := issued.TLS()
	return &pair, err
}

// server answers for an agent, a node agent and a gateway.
type server struct {
	wirev1.UnimplementedAgentServer
	wirev1.UnimplementedNodeAgentServer
	wirev1.UnimplementedHTTPAgentServer
	wirev1.UnimplementedGatewayServer
	err      error
	protocol uint32
	weights  *wirev1.AcceleratorWeights // that it was told last
	// connections that there were, and those that are open.
	connections, open atomic.Int32
}

func (s *server) GetReport(context.Context, *wirev1.GetReportRequest) (*wirev1.GetReportResponse, error) {
	return &wirev1.GetReportResponse{Report: &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_OPENING}}, s.err
}

func (s *server) GetProfile(_ context.Context, q *wirev1.GetProfileRequest) (*wirev1.GetProfileResponse, error) {
	s.weights = q.GetWeights()
	return &wirev1.GetProfileResponse{}, s.err
}

func (s *server) GetHTTPReport(context.Context, *wirev1.GetHTTPReportRequest) (*wirev1.GetHTTPReportResponse, error) {
	return &wirev1.GetHTTPReportResponse{Report: &wirev1.HTTPReport{Revision: "abc"}}, s.err
}

func (s *server) SetHTTPConfig(
	_ context.Context, request *wirev1.SetHTTPConfigRequest,
) (*wirev1.SetHTTPConfigResponse, error) {
	if err := wirev1.UnmarshalConfig(request.GetConfig(), &wirev1.HTTPConfig{}); err != nil {
		return nil, err
	}
	return &wirev1.SetHTTPConfigResponse{}, s.err
}

func (s *server) Hello(context.Context, *wirev1.HelloRequest) (*wirev1.HelloResponse, error) {
	return &wirev1.HelloResponse{ProtocolVersion: s.protocol, Version: "v9", KnownAs: "east"}, s.err
}

func (s *server) Withdraw(context.Context, *wirev1.WithdrawRequest) (*wirev1.WithdrawResponse, error) {
	return &wirev1.WithdrawResponse{}, s.err
}

// serve listens on loopback with a certificate of ca for name, and believes clients of clientCA.
func (s *server) serve(t testing.TB, ca *pki.CA, name string, clientCA *pki.CA) string {
	t.Helper()
	pair, err := issue(ca, pki.GatewayPath, name)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pki.Pool([]*x509.Certificate{clientCA.Certificate}),
	})))
	wirev1.RegisterAgentServer(g, s)
	wirev1.RegisterNodeAgentServer(g, s)
	wirev1.RegisterHTTPAgentServer(g, s)
	wirev1.RegisterGatewayServer(g, s)
	go func() { _ = g.Serve(&countingListener{Listener: listener, server: s}) }()
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

type countingListener struct {
	net.Listener
	server *server
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.connections.Add(1)
	l.server.open.Add(1)
	return &countedConn{Conn: conn, server: l.server}, nil
}

type countedConn struct {
	net.Conn
	server *server
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.server.open.Add(-1) })
	return c.Conn.Close()
}

// TestConnections: one is kept for agents that are asked again soon, until it has been idle, and none for others.
func TestConnections(t *testing.T) {
	ca := newCA(t)
	s := &server{}
	target := agentclient.Target{Address: s.serve(t, ca, serverName, ca), ServerName: serverName}
	agents := agentclient.NewAgents(
		agentclient.Options{Credentials: fixedCredentials{ca}, Timeout: patience, IdleLimit: 3 * time.Second},
	)
	asked := 0
	ask := func(soon bool, want int32) {
		t.Helper()
		asked++
		target.Soon = soon
		report, err := agents.Report(context.Background(), target)
		if err != nil || report.GetState() != wirev1.AgentState_AGENT_STATE_OPENING {
			t.Fatalf("%v, %v", report, err)
		}
		if n := s.connections.Load(); n != want {
			t.Fatalf("%d connections after %d questions, want %d", n, asked, want)
		}
	}
	open := func(want int32) {
		t.Helper()
		for deadline := time.Now().Add(patience); s.open.Load() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections are open, want %d", s.open.Load(), want)
			}
		}
	}
	ask(false, 1)
	open(0)
	ask(true, 2)
	ask(true, 2)
	open(1)
	open(0) // after three seconds
	ask(true, 3)
	s.err = status.Error(codes.Unavailable, "measuring")
	if _, err := agents.Report(context.Background(), target); !errors.Is(err, agentclient.ErrUnreachable) {
		t.Fatal(err)
	}
	open(0)
	s.err = nil
	ask(true, 4)
}

func TestAgentErrors(t *testing.T) {
	ca, stranger := newCA(t), newCA(t)
	for name, test := range map[string]struct {
		ca, clientCA *pki.CA
		serverName   string
		err          error
		want         error
	}{
		"another CA":          {stranger, ca, serverName, nil, agentclient.ErrUntrusted},
		"another agent":       {ca, ca, "other.send.lighterage.internal", nil, agentclient.ErrUntrusted},
		"does not believe us": {ca, stranger, serverName, nil, agentclient.ErrUntrusted},
		"refuses us": {
			ca, ca, serverName, status.Error(codes.PermissionDenied, "not the manager"), agentclient.ErrUntrusted,
		},
		"of another version": {
			ca, ca, serverName, status.Error(codes.Unimplemented, "unknown method"), agentclient.ErrIncompatible,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{err: test.err}
			target := agentclient.Target{Address: s.serve(t, test.ca, test.serverName, test.clientCA), ServerName: serverName}
			agents := agentclient.NewAgents(agentclient.Options{Credentials: fixedCredentials{ca}, Timeout: patience})
			if _, err := agents.Report(context.Background(), target); !errors.Is(err, test.want) {
				t.Fatal(err)
			}
		})
	}
	agents := agentclient.NewAgents(agentclient.Options{Credentials: fixedCredentials{ca}, Timeout: patience})
	if _, err := agents.Profile(
		context.Background(), agentclient.Target{Address: closed, ServerName: serverName},
	); !errors.Is(err, agentclient.ErrUnreachable) {
		t.Fatal(err)
	}
	s := &server{}
	target := agentclient.Target{Address: s.serve(t, ca, pki.NodeAgentServerName, ca), ServerName: pki.NodeAgentServerName}
	if _, err := agents.Profile(context.Background(), target); !errors.Is(err, agentclient.ErrIncompatible) {
		t.Fatalf("an answer without a measurement: %v", err)
	}
}

func TestGateway(t *testing.T) {
	ours, theirs, stranger := newCA(t), newCA(t), newCA(t)
	withFailure := func(code codes.Code, reason wirev1.FailureReason) error {
		s, err := status.New(code, "x").WithDetails(&wirev1.Failure{Reason: reason, Message: "what the gateway says"})
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	for name, test := range map[string]struct {
		bundle     []byte
		clientCA   *pki.CA
		serverName string
		protocol   uint32
		err        error
		want       error
		message    string
	}{
		"well": {theirs.CertificatePEM, ours, pki.GatewayServerName, wirev1.ProtocolVersion, nil, nil, ""},
		"another CA": {
			stranger.CertificatePEM, ours, pki.GatewayServerName, 1, nil, agentclient.ErrUntrusted, "spec.caBundle",
		},
		"broken bundle": {[]byte("x"), ours, pki.GatewayServerName, 1, nil, agentclient.ErrUntrusted, "ca.crt"},
		"not a gateway": {theirs.CertificatePEM, ours, serverName, 1, nil, agentclient.ErrUntrusted, "spec.endpoint"},
		"does not believe us": {theirs.CertificatePEM, stranger, pki.GatewayServerName, 1, nil, agentclient.ErrUntrusted,
			"give that cluster a Peer"},
		"does not know us": {theirs.CertificatePEM, ours, pki.GatewayServerName, 1,
			withFailure(
				codes.Unauthenticated, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
			), agentclient.ErrUntrusted, "what the gateway says"},
		"refuses our protocol": {theirs.CertificatePEM, ours, pki.GatewayServerName, 1,
			withFailure(
				codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			), agentclient.ErrIncompatible, "what the gateway says"},
		"speaks another protocol": {
			theirs.CertificatePEM, ours, pki.GatewayServerName, 99, nil, agentclient.ErrIncompatible, "v9",
		},
		"busy": {
			theirs.CertificatePEM, ours, pki.GatewayServerName, 1, status.Error(codes.Unavailable, "later"),
			agentclient.ErrUnreachable, "later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{err: test.err, protocol: test.protocol}
			gateway := agentclient.Gateway{Endpoint: s.serve(t, theirs, test.serverName, test.clientCA), CABundle: test.bundle}
			client := agentclient.NewPeerGateway(agentclient.Options{Credentials: fixedCredentials{ours}, Timeout: patience})
			hello, err := client.Hello(context.Background(), gateway)
			if test.want == nil {
				if err != nil || hello.GetKnownAs() != "east" {
					t.Fatalf("%v, %v", hello, err)
				}
				if err := client.Withdraw(context.Background(), gateway, "bank", "ledger"); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.message) {
				t.Fatalf("got %v, want %v with %q", err, test.want, test.message)
			}
		})
	}
	client := agentclient.NewPeerGateway(agentclient.Options{Credentials: fixedCredentials{ours}, Timeout: patience})
	_, err := client.Hello(context.Background(), agentclient.Gateway{Endpoint: closed, CABundle: theirs.CertificatePEM})
	if !errors.Is(err, agentclient.ErrUnreachable) || !strings.Contains(err.Error(), "firewalls") {
		t.Fatal(err)
	}
}

func TestHTTPReport(t *testing.T) {
	ca := newCA(t)
	s := &server{}
	target := agentclient.Target{Address: s.serve(t, ca, serverName, ca), ServerName: serverName}
	agents := agentclient.NewAgents(agentclient.Options{Credentials: fixedCredentials{ca}, Timeout: patience})
	report, err := agents.HTTPReport(context.Background(), target)
	if err != nil || report.GetRevision() != "abc" {
		t.Errorf("%v, %v", report, err)
	}
	s.err = status.Error(codes.Unimplemented, "an older agent")
	if _, err := agents.HTTPReport(context.Background(), target); !errors.Is(err, agentclient.ErrIncompatible) {
		t.Errorf("want an agent of another version told from one that is away, got %v", err)
	}
}

// BenchmarkQuestion: both sides are in this process, so the CPU time is that of both.
func BenchmarkQuestion(b *testing.B) {
	ca := newCA(b)
	s := &server{}
	target := agentclient.Target{Address: s.serve(b, ca, serverName, ca), ServerName: serverName}
	credentials := &heldCredentials{fixedCredentials: fixedCredentials{ca}}
	agents := agentclient.NewAgents(agentclient.Options{Credentials: credentials, Timeout: patience})
	for name, soon := range map[string]bool{"kept": true, "new": false} {
		b.Run(name, func(b *testing.B) {
			target.Soon = soon
			for b.Loop() {
				if _, err := agents.Report(b.Context(), target); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// heldCredentials are issued once.
type heldCredentials struct {
	fixedCredentials
	once sync.Once
	pair *tls.Certificate
	err  error
}

func (h *heldCredentials) Certificate(ctx context.Context) (*tls.Certificate, *pki.CA, error) {
	h.once.Do(func() { h.pair, _, h.err = h.fixedCredentials.Certificate(ctx) })
	return h.pair, h.ca, h.err
}

// TestSetHTTPConfig: why an agent does not take a configuration is told apart.
func TestSetHTTPConfig(t *testing.T) {
	ca, s := newCA(t), &server{}
	target := agentclient.Target{Address: s.serve(t, ca, serverName, ca), ServerName: serverName}
	agents := agentclient.NewAgents(agentclient.Options{Credentials: fixedCredentials{ca}, Timeout: patience})
	config := &wirev1.HTTPConfig{Generation: 5}
	for code, want := range map[codes.Code]error{
		codes.OK: nil, codes.InvalidArgument: agentclient.ErrRejected, codes.FailedPrecondition: agentclient.ErrRejected,
		codes.Unimplemented: agentclient.ErrIncompatible, codes.Unavailable: agentclient.ErrUnreachable,
	} {
		s.err = status.Error(code, "said so")
		if err := agents.SetHTTPConfig(t.Context(), target, config); !errors.Is(err, want) {
			t.Errorf("%v: %v", code, err)
		}
	}
	s.err = nil
	config.Backend = &wirev1.HTTPBackend{CaBundle: make([]byte, wirev1.MaxSentConfig)}
	if err := agents.SetHTTPConfig(t.Context(), target, config); !errors.Is(err, agentclient.ErrIncompatible) {
		t.Errorf("one that is too long: %v", err)
	}
}

// TestWeights: node agents are told weights where there are some to tell.
func TestWeights(t *testing.T) {
	ca, s := newCA(t), &server{}
	target := agentclient.Target{Address: s.serve(t, ca, pki.NodeAgentServerName, ca), ServerName: pki.NodeAgentServerName}
	broken := errors.New("no cache")
	for name, c := range map[string]struct {
		weights agentclient.Weights
		want    map[string]uint32
		err     error
	}{
		"none": {err: agentclient.ErrIncompatible}, // the server answers without a measurement
		"some": {weights: func(context.Context) (*wirev1.AcceleratorWeights, error) {
			return &wirev1.AcceleratorWeights{Namespaces: map[string]uint32{"bank": 300}}, nil
		}, want: map[string]uint32{"bank": 300}, err: agentclient.ErrIncompatible},
		"broken": {weights: func(context.Context) (*wirev1.AcceleratorWeights, error) { return nil, broken }, err: broken},
	} {
		s.weights = nil
		agents := agentclient.NewAgents(agentclient.Options{
			Credentials: fixedCredentials{ca}, Timeout: patience, Weights: c.weights,
		})
		_, err := agents.Profile(t.Context(), target)
		if !errors.Is(err, c.err) || !maps.Equal(s.weights.GetNamespaces(), c.want) {
			t.Errorf("%s: told %v, %v", name, s.weights, err)
		}
	}
}
