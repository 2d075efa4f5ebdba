// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// SharedOptions of a Shared. All must be set.
type SharedOptions struct {
	// Conn to the server, which may do everything there.
	Conn *nats.Conn
	// Stream that members share and its only subject. It forgets what is older than Window.
	Stream, Subject string
	Window          time.Duration
	// Last is as in Options; 0 if the queue had no message.
	Last uint64
}

// Shared is the ids that several members know together: a member that starts does not know
// what the others have given, and each of them may be where a message is put again.
type Shared struct {
	index
	options SharedOptions
	stream  jetstream.JetStream
	follows jetstream.ConsumeContext
}

const (
	// shareTimeout bounds how long members may take to agree on ids, shareTry one try, or the first
	// that may take long, and sharePause the pause after it.
	shareTimeout = 10 * time.Second
	shareTry     = 2 * time.Second
	sharePause   = 100 * time.Millisecond
	// caughtUp is how often a member that starts looks whether it knows all.
	caughtUp = 20 * time.Millisecond
)

// Share reads what members have written, and goes on doing so until Close. It waits as long
// as the context allows until the stream has a leader.
func Share(ctx context.Context, o SharedOptions) (*Shared, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("share ids: %w", err)
	}
	s := &Shared{options: o, stream: js}
	s.init(o.Window, maxKnown, time.Now)
	// Of what a leader is asked that has just ended nothing is heard, so the first tries are short. Later ones are
	// longer: on a machine that does much else, or of many ids, the answers take long.
	for bound := shareTry; ; bound = min(2*bound, shareTimeout) {
		if err = s.start(ctx, bound); err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("share ids: %w", err)
		case <-time.After(sharePause):
		}
	}
}

// start follows the stream, and waits until all that is there now was read, which bound limits.
func (s *Shared) start(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	stream, err := s.stream.Stream(ctx, s.options.Stream)
	if err != nil {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	first := stream.CachedInfo().State
	var read atomic.Uint64
	follows, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return // It is none of the stream.
		}
		last := uint64(math.MaxUint64) // What comes later may be of messages that are new.
		if meta.Sequence.Stream <= first.LastSeq {
			last = s.options.Last
		}
		s.learn(m.Data(), last)
		read.Store(meta.Sequence.Stream)
	})
	if err != nil {
		return err
	}
	for first.Msgs > 0 && read.Load() < first.LastSeq {
		select {
		case <-ctx.Done():
			follows.Stop()
			return ctx.Err()
		case <-time.After(caughtUp):
		}
	}
	s.follows = follows
	return nil
}

// Given implements Keeper. It returns when most members have written it.
func (s *Shared) Given(messages []Message) error {
	records := s.records(nil, messages)
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareTimeout)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, shareTry)
		_, err := s.stream.Publish(try, s.options.Subject, records, jetstream.WithRetryAttempts(0))
		end()
		if err == nil {
			s.learn(records, math.MaxUint64)
			return nil
		}
		if errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("share ids: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("share ids: %w", err)
		case <-time.After(sharePause):
		}
	}
}

// Close ends following the stream.
func (s *Shared) Close() error {
	s.follows.Stop()
	return nil
}
