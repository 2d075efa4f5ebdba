// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package receive is the receiving end of a Transfer.
//
// It makes directories and links, compares announced files with what is at the destination and answers which it needs.
// It checks the blocks that come against what was announced, writes the chunks into staged files, reads them back where
// that is asked for, and gives a file its name when all of it is there. What was written is synced and recorded in a
// journal before more than an interval for each stream is at stake.
package receive

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Receiver serves one session of one sender. It is a wirev1.ReceiverServer; blocks come to ServeBlocks.
type Receiver struct {
	wirev1.UnimplementedReceiverServer
	options Options

	mu      sync.Mutex
	attempt *attempt // nil before the first session
	early   early
	ended   chan struct{}
	err     error
}

// New returns a receiver that waits for its sender.
func New(o Options) *Receiver {
	if o.WaitForSender == 0 {
		o.WaitForSender = defaultWaitForSender
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	return &Receiver{options: o, ended: make(chan struct{})}
}

// Wait returns when the attempt has ended: nil after everything was received and synced. The destination is closed
// then.
func (r *Receiver) Wait(ctx context.Context) error {
	timer := time.NewTimer(r.options.WaitForSender)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			return r.err
		case <-ctx.Done():
			return r.abort(context.Cause(ctx))
		case <-timer.C:
			r.mu.Lock()
			waiting := r.attempt == nil
			r.mu.Unlock()
			if waiting {
				return r.abort(failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
					"no sender connected within %v: the other cluster starts another attempt", r.options.WaitForSender))
			}
		}
	}
}

// abort ends the attempt from this side.
func (r *Receiver) abort(err error) error {
	r.mu.Lock()
	a := r.attempt
	if a == nil {
		// No sender may come any more.
		r.attempt = &attempt{}
	}
	r.mu.Unlock()
	if a == nil {
		r.early.end()
		return errors.Join(err, r.options.Destination.Close())
	}
	a.fail(err)
	<-r.ended
	return r.err
}

// Session implements wirev1.ReceiverServer.
func (r *Receiver) Session(stream wirev1.Receiver_SessionServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	a := newAttempt(ctx, cancel, &r.options, stream)
	r.mu.Lock()
	taken := r.attempt != nil
	if !taken {
		r.attempt = a
	}
	r.mu.Unlock()
	if taken {
		return status.Error(codes.FailedPrecondition, "this attempt has had its session")
	}
	err := a.run()
	if closing := r.options.Destination.Close(); err == nil {
		err = closing
	}
	r.err = err
	r.early.end()
	close(r.ended)
	return nil
}

// ServeBlocks takes the blocks of a session from a connection until it has the last one, and answers with their number.
// The caller closes the connection. Why it was refused, if it was, the session says.
//
// A connection that may be made before the session, which its method Early says, does not belong to one before it has
// said so, and is closed if it does not.
func (r *Receiver) ServeBlocks(conn net.Conn) {
	var claim []byte
	if c, ok := conn.(interface{ Early() bool }); ok && c.Early() {
		if claim = r.early.claim(conn); len(claim) == 0 {
			return
		}
	}
	r.mu.Lock()
	a := r.attempt
	r.mu.Unlock()
	if a != nil && a.claimed(claim) {
		a.serveBlocks(conn)
	}
}
