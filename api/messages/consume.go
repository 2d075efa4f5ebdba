// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultVisibility and DefaultRedeliverAfter are those of ConsumeOptions that do not say.
	DefaultVisibility      = 30 * time.Second
	DefaultRedeliverAfter  = time.Second
	extensionsInVisibility = 3
	// partingTime bounds settling messages after the context of Consume has ended.
	partingTime = 15 * time.Second
)

// ConsumeOptions say how to consume.
type ConsumeOptions struct {
	// Concurrency is how many handlers run at once, up to 256; 0: 1. Messages with the same key are never with two of
	// them.
	Concurrency int
	// Visibility is how long after a crash of this client its messages are delivered to others, from 3 s to 12 h; 0:
	// DefaultVisibility. It does not bound the handler: it is extended while that runs.
	Visibility time.Duration
	// RedeliverAfter is when a message is delivered again whose handler returned an error, up to 12 h; 0:
	// DefaultRedeliverAfter. A negative one: at once.
	RedeliverAfter time.Duration
	// DeadLetters in place of the messages.
	DeadLetters bool
	// OnError is told of messages that could not be settled or read, and of errors of handlers; nil: nobody is. It may be
	// called by several goroutines at once.
	OnError func(*Received, error)
}

// rejection is an error that makes a dead letter of a message.
type rejection struct{ detail string }

func (r *rejection) Error() string { return r.detail }

// Rejected returns an error by which a handler has its message made a dead letter. The detail, up to 256 printable
// characters, is kept with it.
func Rejected(detail string) error { return &rejection{detail} }

// Consume gives messages to a handler until the context ends, whose error it returns then, or until a call fails for
// longer than retries last ([WithRetryFor]) or with an error that does not go away. It returns after all handlers have.
//
// A message is acknowledged when its handler returns nil, made a dead letter when it returns [Rejected], and released
// for another delivery when it returns another error. The context of a handler ends with that of Consume, and when the
// message is no longer this client's: [context.Cause] is ErrExpired then. Messages that are damaged are not handled but
// released.
func (c *Client) Consume(
	ctx context.Context, o ConsumeOptions, handle func(ctx context.Context, message *Received) error,
) error {
	o.Concurrency = min(max(o.Concurrency, 1), maxBatch)
	if o.Visibility == 0 {
		o.Visibility = DefaultVisibility
	}
	if o.RedeliverAfter == 0 {
		o.RedeliverAfter = DefaultRedeliverAfter
	}
	if o.Visibility < extensionsInVisibility*time.Second {
		return fmt.Errorf(
			"consume messages: the visibility is %v: use at least %v", o.Visibility, extensionsInVisibility*time.Second,
		)
	}
	var handlers sync.WaitGroup
	defer handlers.Wait()
	places := make(chan struct{}, o.Concurrency)
	for {
		// What is got is handled at once: nothing waits here while it could be with another client.
		free, err := claim(ctx, places)
		if err != nil {
			return err
		}
		got, err := c.Get(
			ctx, GetOptions{Max: free, Wait: maxWait, Visibility: o.Visibility, DeadLetters: o.DeadLetters},
		)
		for range free - len(got) {
			<-places
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("consume messages: %w", context.Cause(ctx))
			}
			return err
		}
		for _, m := range got {
			handlers.Go(func() {
				defer func() { <-places }()
				c.consume(ctx, o, m, handle)
			})
		}
	}
}

// claim waits for a place and takes all that are free.
func claim(ctx context.Context, places chan struct{}) (n int, err error) {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("consume messages: %w", context.Cause(ctx))
	}
	for n = 1; ; n++ {
		select {
		case places <- struct{}{}:
		default:
			return n, nil
		}
	}
}

// consume handles a message and settles it.
func (c *Client) consume(
	ctx context.Context, o ConsumeOptions, m *Received, handle func(context.Context, *Received) error,
) {
	tell := func(err error) {
		if err != nil && o.OnError != nil {
			o.OnError(m, err)
		}
	}
	err := errors.New(m.Damage)
	if m.Damage == "" {
		err = c.keep(ctx, o.Visibility, m, tell, func(ctx context.Context) error { return handle(ctx, m) })
	}
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	var rejected *rejection
	switch {
	case err == nil:
		tell(c.Acknowledge(parting, m))
		return
	case errors.As(err, &rejected):
		tell(c.Reject(parting, rejected.detail, m))
		return
	}
	tell(err)
	tell(c.Release(parting, max(o.RedeliverAfter, 0), m))
}

// keep extends the visibility of a message while work runs. It cancels the work when the message has expired.
func (c *Client) keep(
	ctx context.Context, visibility time.Duration, m *Received, tell func(error), work func(context.Context) error,
) error {
	working, cancel := context.WithCancelCause(ctx)
	extending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var extensions sync.WaitGroup
	extensions.Go(func() {
		ticker := time.NewTicker(visibility / extensionsInVisibility)
		defer ticker.Stop()
		for {
			select {
			case <-extending.Done():
				return
			case <-ticker.C:
			}
			err := c.Extend(extending, visibility, m)
			switch {
			case err == nil || extending.Err() != nil:
			case errors.Is(err, ErrExpired):
				cancel(ErrExpired)
				return
			default:
				tell(err)
			}
		}
	})
	err := work(working)
	stop()
	extensions.Wait()
	cancel(nil)
	return err
}
