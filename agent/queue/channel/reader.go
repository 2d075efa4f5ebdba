// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/pull"
)

const (
	// settling is how long it may take after a consumer was made until its requests are heard: the members of a queue
	// of three learn one after the other which of them serves it. That is mostly no time at all.
	settling = 10 * time.Second
	// unheardPause is between two requests that nobody hears.
	unheardPause = 50 * time.Millisecond
)

// reader reads what the channel's consumer delivers.
type reader struct {
	pull         *pull.Puller
	subscription *nats.Subscription
	// batch and bytes are asked for at a time.
	batch, bytes int
	// settled is when the consumer's requests have to be heard, heard says that one was.
	settled time.Time
	heard   bool
}

// newReader returns one that asks a consumer which was just made for so many messages and bytes at a time. A single
// message has to fit into the bytes.
func newReader(conn *nats.Conn, stream, consumer string, batch, bytes int) (*reader, error) {
	puller := pull.New(conn, stream, consumer)
	subscription, err := conn.SubscribeSync(puller.Inbox())
	if err != nil {
		return nil, fmt.Errorf("ask the queue for messages: %w", err)
	}
	r := &reader{pull: puller, subscription: subscription, batch: batch, bytes: bytes, settled: time.Now().Add(settling)}
	// What was asked for is the limit.
	if err := subscription.SetPendingLimits(-1, -1); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the queue for messages: %w", err), r.close())
	}
	return r, nil
}

// deliver hands out what the channel's consumer, which was just made, delivers.
func deliver(
	ctx context.Context, conn *nats.Conn, stream string, batch, bytes int, letters chan<- *letter,
) (err error) {
	reader, err := newReader(conn, stream, consumerName, batch, bytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.close()) }()
	for {
		l, err := reader.next(ctx)
		if err != nil {
			return err
		}
		select {
		case letters <- l:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *reader) close() error { return r.subscription.Unsubscribe() }

// next waits for a message.
func (r *reader) next(ctx context.Context) (*letter, error) {
	for {
		if !r.pull.Asked() {
			if err := r.pull.Ask(r.batch, r.bytes); err != nil {
				return nil, err
			}
		}
		m, err := r.receive(ctx)
		if errors.Is(err, nats.ErrNoResponders) && !r.heard && time.Now().Before(r.settled) {
			r.pull.Unheard()
			wait(ctx, unheardPause)
			continue
		}
		if err != nil {
			return nil, err
		}
		r.heard = true
		at, err := r.pull.Take(m)
		if err != nil {
			return nil, err
		}
		if at == nil {
			continue
		}
		sequence := at.Sequence.Stream
		return &letter{
			id:       ids.Message{ID: []byte(m.Header.Get(jetstream.MsgIDHeader)), Sequence: sequence, Stored: at.Timestamp},
			sequence: sequence, reply: m.Reply, subject: m.Subject, headers: m.Header, payload: m.Data, stored: at.Timestamp,
		}, nil
	}
}

func (r *reader) receive(ctx context.Context) (*nats.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, pull.Silence)
	defer cancel()
	m, err := r.subscription.NextMsgWithContext(waiting)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: nothing was heard of it: %w", pull.ErrConsumer, err)
	}
	return m, nil
}
