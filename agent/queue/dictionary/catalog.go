// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// requestTimeout is how long JetStream may take to answer.
const requestTimeout = 5 * time.Second

// catalog is the stream of dictionaries.
type catalog struct {
	conn  *nats.Conn
	queue string
}

// listed is what the stream holds.
type listed struct {
	entries map[uint32]entry
	// current is the number of the one in use, 0 if none is, and sequence that of the record which says so, 0 if there
	// is no such record.
	current  uint32
	sequence uint64
	// state of the stream by which is found whether it has changed.
	state jetstream.StreamState
	// there is a stream.
	there bool
}

func (c *catalog) stream(ctx context.Context) (jetstream.Stream, error) {
	js, err := jetstream.New(c.conn)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	stream, err := js.Stream(ctx, store.DictionaryStream(c.queue))
	if err != nil {
		return nil, fmt.Errorf("look at the dictionaries of queue %s: %w", c.queue, err)
	}
	return stream, nil
}

// list reads what has changed since before. Entries that cannot be read are not listed.
func (c *catalog) list(ctx context.Context, before listed) (listed, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := c.stream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return listed{entries: map[uint32]entry{}}, nil
	}
	if err != nil {
		return before, err
	}
	state := stream.CachedInfo().State
	if before.there && state.LastSeq == before.state.LastSeq && state.Msgs == before.state.Msgs &&
		state.FirstSeq == before.state.FirstSeq {
		return before, nil
	}
	now := listed{entries: map[uint32]entry{}, state: state, there: true}
	for next := uint64(1); ; {
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(store.DictionarySubject(c.queue, "*")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return now, nil
		}
		if err != nil {
			return before, fmt.Errorf("read the dictionaries of queue %s: %w", c.queue, err)
		}
		next = m.Sequence + 1
		number, ok := numberOf(c.queue, m.Subject)
		switch {
		case m.Subject == store.DictionarySubject(c.queue, currentName):
			var record wirev1.CurrentDictionary
			if proto.Unmarshal(m.Data, &record) == nil {
				now.current = record.GetNumber()
			}
			now.sequence = m.Sequence
		case !ok:
		default:
			if had, known := before.entries[number]; known && had.sequence == m.Sequence {
				now.entries[number] = had
			} else if e, err := parseEntry(number, m.Data); err == nil {
				e.sequence = m.Sequence
				now.entries[number] = e
			}
		}
	}
}

// get reads one dictionary. The error matches message.ErrDictionary if there is none.
func (c *catalog) get(ctx context.Context, number uint32) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := c.stream(ctx)
	var m *jetstream.RawStreamMsg
	if err == nil {
		m, err = stream.GetLastMsgForSubject(ctx, subjectOf(c.queue, number))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrMsgNotFound) {
		return entry{}, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
	}
	if err != nil {
		return entry{}, err
	}
	e, err := parseEntry(number, m.Data)
	if err != nil {
		return entry{}, fmt.Errorf("%w: number %d: %w", message.ErrDictionary, number, err)
	}
	e.sequence = m.Sequence
	return e, nil
}

// put keeps a dictionary.
func (c *catalog) put(ctx context.Context, about *wirev1.QueueDictionary, content []byte) error {
	data, err := marshal(about, content)
	if err != nil {
		return fmt.Errorf("encode dictionary %d: %w", about.GetNumber(), err)
	}
	return c.publish(ctx, &nats.Msg{Subject: subjectOf(c.queue, about.GetNumber()), Data: data})
}

// use says which dictionary is in use from now on, unless somebody else has said so since the record with a sequence.
func (c *catalog) use(ctx context.Context, number uint32, sequence uint64) error {
	data, err := proto.Marshal(&wirev1.CurrentDictionary{Number: number})
	if err != nil {
		return fmt.Errorf("encode which dictionary is in use: %w", err)
	}
	return c.publish(ctx, &nats.Msg{
		Subject: store.DictionarySubject(c.queue, currentName), Data: data,
		Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: []string{strconv.FormatUint(sequence, 10)}},
	})
}

func (c *catalog) publish(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	js, err := jetstream.New(c.conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	if _, err := js.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("keep a dictionary of queue %s: %w", c.queue, err)
	}
	return nil
}

// remove deletes the entry with a sequence, and no other that took its place.
func (c *catalog) remove(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := c.stream(ctx)
	if err == nil {
		err = stream.DeleteMsg(ctx, e.sequence)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("delete dictionary %d of queue %s: %w", e.about.GetNumber(), c.queue, err)
	}
	return nil
}

// place is where the queue's own messages are: the last sequence, and that of the first message that may refer to a
// dictionary, which is beyond the last if there is none.
func (c *catalog) place(ctx context.Context) (first, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, stream, err := store.Look(ctx, c.conn, c.queue)
	if err != nil {
		return 0, 0, err
	}
	state := stream.CachedInfo().State
	last, first = state.LastSeq, state.LastSeq+1
	for _, subject := range store.Subjects(c.queue) {
		m, err := stream.GetMsg(ctx, max(state.FirstSeq, 1), jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("look for the first message of queue %s: %w", c.queue, err)
		}
		first = min(first, m.Sequence)
	}
	return first, last, nil
}
