// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// tellPatience is how long a sender that gives up waits for the receiver to have heard so. A pod has 10 s to end.
const tellPatience = 5 * time.Second

// session is the stream over which the sender says what it has and the receiver what it needs.
type session struct {
	mu     sync.Mutex // of the sending half
	stream grpc.BidiStreamingClient[wirev1.SessionRequest, wirev1.SessionResponse]
	cut    context.CancelFunc // ends stream
	// patience is how long the receiver may say nothing.
	patience time.Duration
	// ended is closed when the receiver has said its last word.
	ended chan struct{}
}

func (s *session) send(m *wirev1.SessionRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stream.Send(m); err != nil {
		// The stream's own error comes from Recv.
		return fmt.Errorf("send to the receiver: %w", errBroken)
	}
	return nil
}

// errBroken stands for an error that the session's receiving half knows better.
var errBroken = failure.New(
	wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the receiver was lost",
)

// receive returns the receiver's next message. It cuts the stream when none comes for too long: a receiver that hangs
// may still answer the connection's keepalive.
func (s *session) receive() (*wirev1.SessionResponse, error) {
	timer := time.AfterFunc(s.patience, s.cut)
	m, err := s.stream.Recv()
	inTime := timer.Stop()
	switch {
	case err == nil:
		return m, nil
	case !inTime:
		return nil, failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the receiver was silent for %v", s.patience,
		)
	default:
		return nil, protocol.Lost(err)
	}
}

// tell says to the receiver why the sender gives up, if it still listens.
func (s *session) tell(err error) {
	if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST) {
		return
	}
	if s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Failure{Failure: failure.ToWire(err)}}) != nil {
		return
	}
	_ = s.stream.CloseSend()
	// The stream must not be cut before the message is out.
	select {
	case <-s.ended:
	case <-time.After(tellPatience):
	}
}

// refused returns why the receiver gave up.
func refused(f *wirev1.Failure) error {
	return failure.New(f.GetReason(), "the receiver: %w", failure.FromWire(f))
}
