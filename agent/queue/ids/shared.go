// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Keeper remembers ids. It is safe for concurrent use.
type Keeper interface {
	// Given remembers messages that are about to be given to a consumer. After an error they
	// must not be given.
	Given(messages []Message) error
	// Any reports whether Sequence may find something.
	Any() bool
	// Sequence returns that of the message with an id that was given and was stored within
	// the window, if that is known.
	Sequence(id []byte) (sequence uint64, ok bool)
	// SetWindow changes the window, from now on.
	SetWindow(d time.Duration)
	Close() error
}

// SharedOptions of a Shared. All must be set.
type SharedOptions struct {
	// Conn to the server, which may do everything there.
	Conn *nats.Conn
	// Stream that members share and its only subject. It forgets what is older than Window.
	Stream, Subject string
	Window          time.Duration
	// Last is as in Options.
	Last uint64
}

// Shared is the ids that several members know together: a member that starts does not know
// what the others have given, and each of them may be where a message is put again.
type Shared struct {
	options SharedOptions
	stream  jetstream.JetStream
	follows jetstream.ConsumeContext
	window  atomic.Int64

	mu     sync.RWMutex
	places map[digest]place
	order  []entry // as they came
	old    int     // of order are forgotten
	most   int     // of order are not
}

type entry struct {
	id digest
	at place
}

const (
	// shareTimeout bounds how long members may take to agree on ids, shareTry one try and
	// sharePause the pause after it.
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
	s := &Shared{options: o, stream: js, places: make(map[digest]place), most: maxKnown}
	s.window.Store(int64(o.Window))
	for {
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("share ids: %w", err)
		case <-time.After(sharePause):
		}
	}
}

// start follows the stream, and waits until all that is there now was read.
func (s *Shared) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
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
		last := uint64(0)
		if meta.Sequence.Stream <= first.LastSeq {
			last = s.options.Last // What comes later may be of messages that are new.
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

// learn takes what a member wrote. Sequences beyond last do not count unless that is 0.
func (s *Shared) learn(records []byte, last uint64) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Reading from memory does not fail.
	_ = scan(bytes.NewReader(records), func(id digest, at place) {
		if last > 0 && at.sequence > last || !counts(at, now, s.windowNow()) {
			return
		}
		p, ok := s.places[id]
		if ok && p.stored > at.stored || p == at {
			return
		}
		s.places[id] = at
		s.order = append(s.order, entry{id, at})
	})
	for s.old < len(s.order) && (len(s.order)-s.old > s.most || !counts(s.order[s.old].at, now, s.windowNow())) {
		e := s.order[s.old]
		if s.places[e.id] == e.at {
			delete(s.places, e.id)
		}
		s.old++
	}
	if s.old > len(s.order)/2 {
		s.order = append([]entry(nil), s.order[s.old:]...)
		s.old = 0
	}
}

func (s *Shared) windowNow() time.Duration { return time.Duration(s.window.Load()) }

// SetWindow implements Keeper. That of the stream is its owner's matter.
func (s *Shared) SetWindow(d time.Duration) { s.window.Store(int64(d)) }

// Given implements Keeper. It returns when most members have written it.
func (s *Shared) Given(messages []Message) error {
	now := time.Now()
	var records []byte
	for _, m := range messages {
		at := place{m.Sequence, m.Stored.Unix()}
		if len(m.ID) > 0 && counts(at, now, s.windowNow()) {
			records = appendRecord(records, digestOf(m.ID), at)
		}
	}
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
			s.learn(records, 0)
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

// Any implements Keeper.
func (s *Shared) Any() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.places) > 0
}

// Sequence implements Keeper.
func (s *Shared) Sequence(id []byte) (sequence uint64, ok bool) {
	if len(id) == 0 {
		return 0, false
	}
	sum := digestOf(id)
	s.mu.RLock()
	p, ok := s.places[sum]
	s.mu.RUnlock()
	if !ok || !counts(p, time.Now(), s.windowNow()) {
		return 0, false
	}
	return p.sequence, true
}

// Close ends following the stream.
func (s *Shared) Close() error {
	s.follows.Stop()
	return nil
}
