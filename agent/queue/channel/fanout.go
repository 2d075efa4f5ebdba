// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/ids"
)

const (
	// removeBatch is how many messages are removed with one note of their ids, at most.
	removeBatch = 256
	// removeAhead is how many messages may wait for the slowest receiver in memory, without their payloads.
	removeAhead = 1024
)

// FanoutOptions of a Fanout. What is zero and has no default must be set.
type FanoutOptions struct {
	// Conn to the server of the stream, which may do everything there. The stream allows direct gets.
	Conn   *nats.Conn
	Stream string
	// Leads as in SenderOptions.
	Leads func() bool
	// Names of all that are to have each message. Those of which no sender runs keep everything in the stream.
	Names []string
	// IDs as in SenderOptions.
	IDs ids.Keeper
	// Backoff defaults to DefaultBackoff.
	Backoff Backoff
	Log     *slog.Logger
}

// Fanout lets several senders send one stream, each all of it and from a position of its own, and removes what all have
// sent. It holds the only consumer that a work queue can have, which takes messages without their payloads, in order,
// and acknowledges each once every receiver is known to have it. Senders read beside it: none waits for another.
type Fanout struct {
	options FanoutOptions

	mu sync.Mutex
	// changed is closed, and another one made, with each change of what follows.
	changed chan struct{}
	// ended is closed when the consumer that is there goes; nil: there is none. failed is why, nil while it is to come.
	ended  chan struct{}
	failed error
	// known is what receivers have, by name, as far as their senders have learned since the consumer is there.
	known map[string]known
	// arrived is closed with the next message that the consumer delivers; nil: nobody waits for it.
	arrived chan struct{}
}

// known is what a receiver has of a stream.
type known struct {
	// had is what it said at the start of the channel, and stored the sequence up to which it has said since that it has
	// stored what was sent.
	had    position
	stored uint64
}

func (k known) has(l *letter) bool { return k.had.has(l) || l.sequence <= k.stored }

// NewFanout returns one that does not run yet.
func NewFanout(o FanoutOptions) *Fanout {
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = DefaultBackoff
	}
	return &Fanout{options: o, changed: make(chan struct{})}
}

// Run holds the consumer until the context ends. What failed is tried again, after pauses that grow, and senders say
// meanwhile what it was.
func (f *Fanout) Run(ctx context.Context) {
	pause := f.options.Backoff.First
	for ctx.Err() == nil {
		if !f.options.Leads() {
			f.close(nil)
			wait(ctx, standbyPause)
			continue
		}
		held, err := f.hold(ctx)
		if errors.Is(err, errFollows) {
			err = nil
		}
		f.close(err)
		if ctx.Err() != nil || err == nil {
			continue
		}
		if held {
			pause = f.options.Backoff.First
		}
		jittered := pause - rand.N(pause/2+1)
		pause = min(2*pause, f.options.Backoff.Most)
		f.options.Log.Warn(
			"Consumer of several channels is made again", "stream", f.options.Stream, "pause", jittered.String(), "cause",
			failure.Shorten(err.Error(), failure.MaxMessage),
		)
		wait(ctx, jittered)
	}
}

// hold removes what all have until something ends it. held says that the consumer was there.
func (f *Fanout) hold(ctx context.Context) (held bool, err error) {
	js, err := jetstream.New(f.options.Conn)
	if err != nil {
		return false, fmt.Errorf("use JetStream: %w", err)
	}
	lookup, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stream, err := js.Stream(lookup, f.options.Stream)
	if err != nil {
		return false, fmt.Errorf("look at the queue's stream: %w", err)
	}
	if err := makeConsumer(lookup, stream, f.options.Stream, jetstream.ConsumerConfig{
		HeadersOnly: true, AckWait: redeliverAfter, MaxAckPending: removeAhead,
	}); err != nil {
		return false, err
	}
	f.open()
	group, ctx := errgroup.WithContext(ctx)
	delivered, letters := make(chan *letter), make(chan *letter, removeAhead)
	group.Go(func() error {
		// Payloads are not counted, so that there is no end of bytes to ask for.
		return deliver(ctx, f.options.Conn, f.options.Stream, removeBatch, 1<<40, delivered)
	})
	group.Go(func() error { return f.tell(ctx, delivered, letters) })
	group.Go(func() error { return f.remove(ctx, letters) })
	group.Go(func() error { return lead(ctx, f.options.Leads) })
	return true, group.Wait()
}

// tell passes on what the consumer delivers, and wakes senders: remove may be waiting for the slowest of them. What
// JetStream redelivers meanwhile is in letters already; what all have is redelivered if its acknowledgement was lost.
func (f *Fanout) tell(ctx context.Context, delivered <-chan *letter, letters chan<- *letter) error {
	var told uint64
	for {
		select {
		case l := <-delivered:
			if l.sequence <= told && !f.had(l) {
				continue
			}
			told = max(told, l.sequence)
			f.wake()
			select {
			case letters <- l:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *Fanout) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.arrived != nil {
		close(f.arrived)
		f.arrived = nil
	}
}

// remove acknowledges what all have, in order.
func (f *Fanout) remove(ctx context.Context, letters <-chan *letter) error {
	var next *letter
	for {
		if next == nil {
			select {
			case next = <-letters:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := f.await(ctx, next); err != nil {
			return err
		}
		var replies []string
		var gone []ids.Message
		for next != nil && len(replies) < removeBatch && f.had(next) {
			replies, gone = append(replies, next.reply), append(gone, next.id)
			select {
			case next = <-letters:
			default:
				next = nil
			}
		}
		if err := acknowledge(f.options.Conn, f.options.IDs, replies, gone); err != nil {
			return err
		}
	}
}

// await waits until all have a message.
func (f *Fanout) await(ctx context.Context, l *letter) error {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if f.had(l) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// had reports whether all are known to have a message.
func (f *Fanout) had(l *letter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(f.options.Names, func(name string) bool { return !f.known[name].has(l) })
}

// change says to those who wait that something did. mu is held.
func (f *Fanout) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Fanout) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.failed, f.known = make(chan struct{}), nil, map[string]known{}
	f.change()
}

func (f *Fanout) close(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		close(f.ended)
	}
	f.ended, f.failed = nil, err
	f.change()
}

// share is the part of a sender in a Fanout. It ends with the consumer.
type share struct {
	fanout *Fanout
	name   string
	ended  <-chan struct{}
}

// errConsumerWent ends a session whose Fanout has lost its consumer.
var errConsumerWent = errors.New("the consumer of the channels ended; they start again")

// join waits until the consumer is there, and notes what a receiver has.
func (f *Fanout) join(ctx context.Context, name string, had position) (*share, error) {
	for {
		f.mu.Lock()
		ended, failed, changed := f.ended, f.failed, f.changed
		if ended != nil {
			f.known[name] = known{had: had}
			f.change()
		}
		f.mu.Unlock()
		if ended != nil {
			return &share{fanout: f, name: name, ended: ended}, nil
		}
		if failed != nil {
			return nil, failed
		}
		select {
		case <-changed:
		case <-time.After(standbyPause):
			if !f.options.Leads() {
				return nil, errFollows
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stored notes that the receiver has stored what was sent up to a sequence.
func (s *share) stored(sequence uint64) {
	s.fanout.mu.Lock()
	defer s.fanout.mu.Unlock()
	if s.fanout.ended != s.ended {
		return
	}
	at := s.fanout.known[s.name]
	at.stored = sequence
	s.fanout.known[s.name] = at
	s.fanout.change()
}

// news is closed with the next message that the consumer delivers.
func (s *share) news() <-chan struct{} {
	s.fanout.mu.Lock()
	defer s.fanout.mu.Unlock()
	if s.fanout.arrived == nil {
		s.fanout.arrived = make(chan struct{})
	}
	return s.fanout.arrived
}

// watch ends a session with its consumer.
func (s *share) watch(ctx context.Context) error {
	select {
	case <-s.ended:
		return errConsumerWent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
