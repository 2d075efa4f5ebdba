// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/send"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// gateway answers each Open with the next of its scripts; the last one again and again.
type gateway struct {
	wirev1.UnimplementedGatewayServer
	scripts []func(*wirev1.OpenRequest, wirev1.Gateway_OpenServer) error
	calls   atomic.Int64
}

func (g *gateway) Open(r *wirev1.OpenRequest, stream wirev1.Gateway_OpenServer) error {
	i := int(g.calls.Add(1)) - 1
	return g.scripts[min(i, len(g.scripts)-1)](r, stream)
}

// plainConn is a connection without TLS whose trust a test decides.
type plainConn struct {
	*grpc.ClientConn
	untrusted error
}

func (c plainConn) Untrusted() error            { return c.untrusted }
func (c plainConn) Ready(context.Context) error { return nil }

func (g *gateway) serve(t *testing.T) plainConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	wirev1.RegisterGatewayServer(server, g)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return plainConn{ClientConn: conn}
}

type script = func(*wirev1.OpenRequest, wirev1.Gateway_OpenServer) error

func pending(message string) script {
	return func(_ *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
		return s.Send(
			&wirev1.OpenResponse{State: &wirev1.OpenResponse_Pending{Pending: &wirev1.OpenPending{Message: message}}},
		)
	}
}

func ready(name string) script {
	return func(_ *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
		return s.Send(&wirev1.OpenResponse{State: &wirev1.OpenResponse_Ready{Ready: &wirev1.OpenReady{ServerName: name}}})
	}
}

func refused(reason wirev1.FailureReason) script {
	return func(_ *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
		return s.Send(
			&wirev1.OpenResponse{State: &wirev1.OpenResponse_Refused{Refused: &wirev1.Failure{Reason: reason, Message: "no"}}},
		)
	}
}

func fails(code codes.Code) script {
	return func(*wirev1.OpenRequest, wirev1.Gateway_OpenServer) error { return status.Error(code, "test") }
}

func both(a, b script) script {
	return func(r *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error { return errors.Join(a(r, s), b(r, s)) }
}

func TestOpen(t *testing.T) {
	quick := send.Backoff{First: time.Millisecond, Most: 4 * time.Millisecond, Patience: 60 * time.Millisecond}
	tests := map[string]struct {
		scripts []script
		want    string
		reason  wirev1.FailureReason
	}{
		"Ready":            {scripts: []script{ready("x")}, want: "x"},
		"PendingThenReady": {scripts: []script{both(pending("wait"), ready("x"))}, want: "x"},
		"GatewayRestarts": {
			scripts: []script{
				fails(codes.Unavailable), pending("wait"), both(pending("wait"), fails(codes.Unavailable)), ready("x"),
			},
			want: "x",
		},
		"Refused": {
			scripts: []script{refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)},
			reason:  wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
		},
		"RefusedLater": {
			scripts: []script{both(pending("wait"), refused(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND))},
			reason:  wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
		},
		"Unreachable": {
			scripts: []script{fails(codes.Unavailable)}, reason: wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
		},
		"Unauthenticated": {
			scripts: []script{fails(codes.Unauthenticated)}, reason: wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
		},
		"OldGateway": {
			scripts: []script{fails(codes.Unimplemented)}, reason: wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		},
		"UnknownState": {
			scripts: []script{func(_ *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
				return s.Send(&wirev1.OpenResponse{})
			}},
			reason: wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		},
		"ReadyWithoutName":  {scripts: []script{ready("")}, reason: wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"ReplacedByAnother": {scripts: []script{fails(codes.Aborted)}, reason: wirev1.FailureReason_FAILURE_REASON_ABORTED},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := &gateway{scripts: test.scripts}
			report, backoff := send.NewReport(), quick
			if test.reason != wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE {
				backoff.Patience = 3 * time.Minute // a slow machine is no gateway that is away
			}
			got, err := send.Open(t.Context(), g.serve(t), &wirev1.OpenRequest{}, report, backoff)
			if test.want != "" && (err != nil || got != test.want) {
				t.Errorf("opening ends with %q, %v", got, err)
			}
			if test.want == "" && !failure.Is(err, test.reason) {
				t.Errorf("opening ends with %q, %v", got, err)
			}
		})
	}
}

// A gateway of the release before is spoken to in its version, and of one that is older nothing is asked twice.
func TestOpenInAnOlderVersion(t *testing.T) {
	speaks := func(newest uint32) script {
		return func(r *wirev1.OpenRequest, s wirev1.Gateway_OpenServer) error {
			if r.GetProtocolVersion() > newest {
				return refused(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE)(r, s)
			}
			return ready("x")(r, s)
		}
	}
	for newest, calls := range map[uint32]int64{
		wirev1.OldestProtocolVersion + 1: 1, wirev1.OldestProtocolVersion: 2, wirev1.OldestProtocolVersion - 1: 2,
	} {
		g := &gateway{scripts: []script{speaks(newest)}}
		request := &wirev1.OpenRequest{ProtocolVersion: wirev1.OldestProtocolVersion + 1}
		_, err := send.Open(t.Context(), g.serve(t), request, send.NewReport(), send.DefaultBackoff)
		if older := newest < wirev1.OldestProtocolVersion; (err != nil) != older ||
			older != failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE) {
			t.Errorf("a gateway that speaks %d: %v", newest, err)
		}
		if g.calls.Load() != calls || err == nil && request.GetProtocolVersion() != newest {
			t.Errorf(
				"a gateway that speaks %d: %d calls, version %d in the end", newest, g.calls.Load(), request.GetProtocolVersion(),
			)
		}
	}
}

func TestOpenShowsWhatItWaitsFor(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	g := &gateway{scripts: []script{both(pending("the claim is not bound"), func(
		_ *wirev1.OpenRequest, s wirev1.Gateway_OpenServer,
	) error {
		<-s.Context().Done()
		return nil
	})}}
	report := send.NewReport()
	stop := errors.New("stopped by the test")
	go func() {
		for report.Report().Detail != "the claim is not bound" {
			time.Sleep(time.Millisecond)
		}
		cancel(stop)
	}()
	if _, err := send.Open(
		ctx, g.serve(t), &wirev1.OpenRequest{}, report, send.DefaultBackoff,
	); !errors.Is(err, stop) {
		t.Errorf("opening ends with %v", err)
	}
}

func TestOpenWithoutTrustEndsAtOnce(t *testing.T) {
	conn := (&gateway{scripts: []script{fails(codes.Unavailable)}}).serve(t)
	conn.untrusted = failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, "test")
	_, err := send.Open(t.Context(), conn, &wirev1.OpenRequest{}, send.NewReport(), send.DefaultBackoff)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED) {
		t.Errorf("opening ends with %v", err)
	}
}
