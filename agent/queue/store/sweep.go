// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Sweep removes messages that consumers have acknowledged and that are still in the stream.
//
// When a server that keeps a stream alone ends without being shut down, the volume may
// have the acknowledgement and the message as well. No consumer is ever given the message
// again, and nothing removes it: it would take space for ever. Members of a cluster look
// for such messages themselves.
//
// What a consumer has acknowledged is known by its floor, below which nothing is to come.
// That floor also moves over messages that were never acknowledged, which are kept and must
// not be removed: over those that were given as often as MaxDeliver allows, over those before
// where a consumer was told to begin, and over those of subjects that it reads only since
// its filters were changed (Configure). Where there may be such messages nothing is removed:
// what is left takes space, and is no loss. No client may move the floor by a request (permissions).
type Sweep struct {
	store *Store
	conn  *nats.Conn
	// delivered is how far each consumer had come when the sweep began. What comes later
	// is removed when it is acknowledged.
	delivered map[string]uint64
	// kept is the last message that is not removed in any case.
	kept uint64
}

// NewSweep returns one for a store that has just started. The connection has all rights.
func (s *Store) NewSweep(conn *nats.Conn) *Sweep { return &Sweep{store: s, conn: conn} }

// Run removes what is known to be acknowledged, and returns how many messages that were.
// Unless it is done, consumers have something that they had before, and it is to be run
// again later.
func (w *Sweep) Run(ctx context.Context) (removed int, done bool, err error) {
	if w.store == nil || w.store.options.Cluster != nil {
		return 0, true, nil
	}
	if removed, done, err = w.run(ctx); err != nil {
		return removed, false, fmt.Errorf("remove acknowledged messages from queue %s: %w", w.store.options.Queue, err)
	}
	return removed, done, nil
}

func (w *Sweep) run(ctx context.Context) (removed int, done bool, err error) {
	_, stream, err := Look(ctx, w.conn, w.store.options.Queue)
	if err != nil {
		return 0, false, err
	}
	if w.store.refiltered() {
		return 0, true, nil // The next start will tell what is to be kept.
	}
	list := stream.ListConsumers(ctx)
	first := w.delivered == nil
	known := make(map[string]string)
	if first {
		if w.kept, err = w.store.kept(stream.CachedInfo().State.LastSeq); err != nil {
			return 0, false, err
		}
		w.delivered = make(map[string]uint64)
	}
	done = true
	for consumer := range list.Info() {
		if first {
			w.delivered[consumer.Name] = consumer.Delivered.Stream
			known[consumer.Name] = sortedFilters(filtersOf(consumer))
		}
		if w.store.refiltered() { // These may be the filters of now, and the floor by those of before.
			return removed, true, nil
		}
		if c := consumer.Config; c.MaxDeliver > 0 || c.DeliverPolicy != jetstream.DeliverAllPolicy ||
			c.AckPolicy != jetstream.AckExplicitPolicy {
			continue
		}
		if consumer.NumRedelivered > 0 {
			// It remembers messages that were given more than once until they leave. They may be such that it gave up
			// when it had a limit, or some that are still to be acknowledged.
			done = false
			continue
		}
		n, err := w.sweep(ctx, stream, consumer)
		removed += n
		if err != nil {
			return removed, false, err
		}
		done = done && consumer.AckFloor.Stream >= w.delivered[consumer.Name]
	}
	if err := list.Err(); err != nil {
		return removed, false, err
	}
	if first {
		w.store.filters.learn(known)
	}
	return removed, done, nil
}

func filtersOf(consumer *jetstream.ConsumerInfo) []string {
	if consumer.Config.FilterSubject != "" {
		return append(slices.Clone(consumer.Config.FilterSubjects), consumer.Config.FilterSubject)
	}
	return consumer.Config.FilterSubjects
}

// sweep removes the messages of a consumer up to the one below which it has acknowledged
// all.
func (w *Sweep) sweep(
	ctx context.Context, stream jetstream.Stream, consumer *jetstream.ConsumerInfo,
) (removed int, err error) {
	for _, filter := range filtersOf(consumer) {
		for sequence := w.kept + 1; ; {
			m, err := stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(filter))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return removed, err
			}
			if m.Sequence > consumer.AckFloor.Stream {
				break
			}
			if err := stream.DeleteMsg(ctx, m.Sequence); err != nil {
				return removed, err
			}
			removed++
			sequence = m.Sequence + 1
		}
	}
	return removed, nil
}
