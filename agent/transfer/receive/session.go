// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// session is the stream over which the sender says what it has and the receiver what it needs.
type session struct {
	stream   wirev1.Receiver_SessionServer
	activity *activity
	// patience is how long the sender may take to take the last message.
	patience time.Duration

	mu   sync.Mutex // of the sending half
	over bool       // nothing is sent any more
	// silent: the sender knows already why the session ended, or is gone.
	silent atomic.Bool
}

func (s *session) send(m *wirev1.SessionResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return context.Canceled
	}
	if err := s.stream.Send(m); err != nil {
		return protocol.Lost(err)
	}
	return nil
}

// end ends the session and tells the sender why, unless it knows or err is nil.
func (s *session) end(err error) {
	var last *wirev1.SessionResponse
	if err != nil && !s.silent.Load() {
		last = &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Failure{Failure: failure.ToWire(err)}}
	}
	_ = s.lastWord(last)
}

// lastWord is send for the last message, which may be nil for none. It does not wait for long for a sender that takes
// nothing.
func (s *session) lastWord(m *wirev1.SessionResponse) error {
	said := make(chan error, 1)
	go func() {
		var err error
		if m != nil {
			err = s.send(m)
		}
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-time.After(s.patience):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sender does not take the receiver's last message",
		)
	}
}

// receive returns the sender's next message. A sender that gives up or goes away is an error.
func (s *session) receive() (*wirev1.SessionRequest, error) {
	m, err := s.stream.Recv()
	if err != nil {
		s.silent.Store(true)
		if errors.Is(err, io.EOF) {
			return nil, failure.New(
				wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sender ended the session before it was finished",
			)
		}
		return nil, failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the sender was lost: %w", err,
		)
	}
	s.activity.touch()
	if f := m.GetFailure(); f != nil {
		s.silent.Store(true)
		reason := wirev1.FailureReason_FAILURE_REASON_ABORTED
		if f.GetReason() == wirev1.FailureReason_FAILURE_REASON_PAUSED {
			reason = f.GetReason()
		}
		return nil, failure.New(reason,
			"the sender gave up: %s", failure.Shorten(f.GetMessage(), failure.MaxMessage/2))
	}
	return m, nil
}

// cause says why the context of an attempt ended.
func (s *session) cause(ctx context.Context) error {
	cause := context.Cause(ctx)
	var known *failure.Error
	if !errors.As(cause, &known) && s.stream.Context().Err() != nil {
		s.silent.Store(true)
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the sender was lost: %w", cause,
		)
	}
	return cause
}
