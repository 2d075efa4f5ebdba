// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// firstPause is the mean pause before the second attempt; each further one is twice as long, up to maxPause.
	firstPause, maxPause = 50 * time.Millisecond, 2 * time.Second
	// maxExhausted is how often a call is made that a member rejects for want of memory, or because it is too long:
	// the status of both is the same.
	maxExhausted = 5
	// answerTimeout bounds an attempt, beyond what the Queue was asked to wait. Members give up before.
	answerTimeout = 30 * time.Second
)

var pauses = backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.5, MaxDelay: maxPause}

// repeat makes attempts until one says that it was the last, or the client's patience or the context ends. It returns
// the error of the last one.
func (c *Client) repeat(
	ctx context.Context, wait time.Duration, attempt func(context.Context) (again bool, err error),
) error {
	until := time.Now().Add(c.retryFor)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		once, cancel := context.WithTimeout(ctx, wait+answerTimeout)
		again, err := attempt(once)
		cancel()
		if !again || ctx.Err() != nil {
			return err
		}
		length := pause/2 + rand.N(pause) //nolint:gosec // Pauses need no secret.
		if time.Now().Add(length).After(until) {
			return err
		}
		timer := time.NewTimer(length)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// retryable says of the errors of one call whether another attempt may succeed.
type retryable struct {
	*Client
	exhausted int
}

func (r *retryable) again(ctx context.Context, err error) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return !r.last.distrusted()
	case codes.DeadlineExceeded, codes.Aborted:
		return true
	case codes.ResourceExhausted:
		r.exhausted++
		return r.exhausted < maxExhausted
	case codes.Canceled:
		// The member ended the call. If the caller did, repeat ends.
		return ctx.Err() == nil
	default:
		return false
	}
}

// served is true when a member may have done what a call asked for that ended with an error.
func (r *retryable) served(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return !r.last.distrusted()
	case codes.DeadlineExceeded, codes.Aborted, codes.Canceled, codes.Unknown, codes.Internal:
		return true
	default:
		return false
	}
}

func miscounted(doing string, answered, sent int) error {
	return fmt.Errorf("%s: the queue answered of %d messages and was asked for %d", doing, answered, sent)
}

// failed names what failed, with the reason why there is no connection if that is it.
func (c *Client) failed(doing string, err error) error {
	if status.Code(err) == codes.Unavailable {
		if reason := c.last.error(); reason != nil {
			return fmt.Errorf("%s: %w: %w", doing, err, reason)
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
