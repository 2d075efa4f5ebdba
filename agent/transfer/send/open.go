// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Backoff says how long to try what fails for want of a connection.
type Backoff struct {
	// First is the first pause; it doubles up to Most.
	First, Most time.Duration
	// Patience is how long tries may fail one after the other.
	Patience time.Duration
	// Advice is what to check when nobody has answered.
	Advice string
}

// DefaultBackoff is what agents use.
var DefaultBackoff = Backoff{
	First: time.Second, Most: 10 * time.Second, Patience: 2 * time.Minute,
	Advice: "check the endpoint of the Peer, and that the network lets this cluster reach it",
}

// Open opens a run at the peer's gateway and returns the TLS server name of the receiving agent when that is ready. It
// tries again while the gateway cannot be reached. What is waited for is shown in the report. The request has the
// version of the protocol to begin with, and in the end the one in which the gateway was spoken to: an older one, if
// that is spoken here, where the gateway rejects the newer.
func Open(ctx context.Context, gateway Conn, request *wirev1.OpenRequest, report *Report, b Backoff) (string, error) {
	pause, since := b.First, time.Now()
	for {
		heard := false
		name, err := openOnce(ctx, gateway, request, func(pending string) {
			heard = true
			report.SetDetail(pending)
		})
		if err == nil {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE) &&
			wirev1.Speaks(request.GetProtocolVersion()-1) {
			request.ProtocolVersion--
			continue
		}
		var known *failure.Error
		if errors.As(err, &known) {
			return "", err
		}
		if untrusted := gateway.Untrusted(); untrusted != nil {
			return "", untrusted
		}
		if final := refusal(err); final != nil {
			return "", final
		}
		if heard {
			pause, since = b.First, time.Now()
		}
		if time.Since(since)+pause > b.Patience {
			return "", failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
				"the peer's gateway did not answer for %v (%w): %s", time.Since(since).Round(time.Second), err, b.Advice)
		}
		report.SetDetail(fmt.Sprintf("The peer's gateway does not answer, trying again in %v", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		pause = min(2*pause, b.Most)
	}
}

func openOnce(ctx context.Context, gateway Conn, request *wirev1.OpenRequest, pending func(string)) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := wirev1.NewGatewayClient(gateway).Open(ctx, request)
	if err != nil {
		return "", err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", status.Error(codes.Unavailable, "the gateway ended the stream early")
		}
		if err != nil {
			return "", err
		}
		switch state := m.GetState().(type) {
		case *wirev1.OpenResponse_Pending:
			pending(state.Pending.GetMessage())
		case *wirev1.OpenResponse_Ready:
			if state.Ready.GetServerName() == "" {
				return "", protocol.Invalid("the gateway named no receiving agent")
			}
			return state.Ready.GetServerName(), nil
		case *wirev1.OpenResponse_Refused:
			return "", failure.FromWire(state.Refused)
		default:
			return "", failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
				"the peer's gateway sent a state that this agent (%s) does not know: use the same release of Lighterage in both "+
					"clusters", wirev1.Version)
		}
	}
}

// refusal returns an error with a reason for what no waiting fixes.
func refusal(err error) error {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
			"the peer's gateway does not accept this cluster (%w): compare caBundle of the Peer there with the ConfigMap "+
				"lighterage-ca here", err)
	case codes.Unimplemented, codes.InvalidArgument, codes.OutOfRange:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the peer's gateway does not understand this agent (%w): use the same release of Lighterage in both clusters", err)
	case codes.FailedPrecondition, codes.Aborted, codes.Canceled:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED, "the peer's gateway ended the run: %w", err)
	default:
		return nil
	}
}
