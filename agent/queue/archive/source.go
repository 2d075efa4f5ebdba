// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/scan"
	"github.com/lighterage/lighterage/agent/queue/store"
)

const (
	// fetchMessages and fetchBytes are what is asked for at once.
	fetchMessages = 256
	fetchBytes    = 4 << 20
	// requestTimeout is how long JetStream may take to answer. A leader that has just ended never does.
	requestTimeout = 5 * time.Second
	// messageTimeout is how long a message may take, and batchTimeout how long it may take to store a batch.
	messageTimeout = 10 * time.Second
	batchTimeout   = 30 * time.Second
	// replicas that lag behind are asked again after lagPause, lagTries times.
	lagPause = 100 * time.Millisecond
	lagTries = 100
)

// source reads a queue's stream without a consumer.
type source struct {
	conn   *nats.Conn
	stream string
	// decoding makes messages plain that refer to a dictionary; nil: none do.
	decoding *message.Decoding
	// unfit is how many messages had something that no reader of NATS takes, which was left out.
	unfit uint64
}

// each calls found for the messages between two sequences that there are, in order. Those of the agent's own are
// counted and not shown.
func (s *source) each(ctx context.Context, from, to uint64, found func(*Record) error) (own uint64, err error) {
	reader, err := scan.NewReader(s.conn, s.stream)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	show := func(m *scan.Message) error {
		if m.Sequence > to {
			return nil
		}
		ours, err := s.show(m, found)
		own += ours
		return err
	}
	for next, tries := from, 0; next <= to; {
		last, unread, err := reader.Fetch(ctx, next, fetchMessages, fetchBytes, show)
		if err != nil {
			return own, err
		}
		if last >= next {
			next, tries = last+1, 0
			if !unread {
				continue
			}
		}
		// Any replica may have answered. The leader knows whether there is more.
		ahead, err := reader.Ahead(ctx, next)
		if err != nil {
			return own, err
		}
		if ahead == nil || ahead.Sequence > to {
			return own, nil
		}
		if unread {
			if err := show(ahead); err != nil {
				return own, err
			}
			next, tries = ahead.Sequence+1, 0
			continue
		}
		if tries++; tries > lagTries {
			return own, fmt.Errorf("read the queue: a replica has not got message %d for %v", ahead.Sequence, lagTries*lagPause)
		}
		select {
		case <-ctx.Done():
			return own, ctx.Err()
		case <-time.After(lagPause):
		}
	}
	return own, nil
}

// show calls found for a message, or counts it if it is the agent's own.
func (s *source) show(m *scan.Message, found func(*Record) error) (own uint64, err error) {
	r := &Record{Sequence: m.Sequence, Time: m.Time, Payload: m.Payload}
	switch {
	case m.Subject == store.DeadSubject(s.stream):
		r.Kind = DeadLetter
	case m.Subject == s.stream || strings.HasPrefix(m.Subject, s.stream+"."):
		r.Suffix = strings.TrimPrefix(m.Subject, s.stream)
	default:
		return 1, nil
	}
	for name, values := range m.Header {
		if batch.IsControl(name) && name != jetstream.MsgIDHeader && name != jetstream.MsgTTLHeader {
			continue // the answer's, or it has done its work
		}
		if r.Headers == nil {
			r.Headers = make(nats.Header)
		}
		r.Headers[name] = values
	}
	if s.decoding != nil {
		// Whoever restores the archive does not have the queue's dictionaries.
		var err error
		r.Headers, r.Payload, err = s.decoding.Ordinary(r.Headers, r.Payload)
		if err != nil && !errors.Is(err, message.ErrCorrupt) {
			return 0, fmt.Errorf("archive message %d: %w", r.Sequence, err)
		}
	}
	if !fit(r) {
		s.unfit++
	}
	return 0, found(r)
}
