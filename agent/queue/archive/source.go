// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/store"
)

const (
	// fetchMessages and fetchBytes are what is asked for at once.
	fetchMessages = 256
	fetchBytes    = 4 << 20
	// requestTimeout is how long JetStream may take to answer. A leader that has just ended never does.
	requestTimeout = 5 * time.Second
	// messageTimeout is how long it may take from one message to the next of those that were asked for, and
	// batchTimeout to store a batch.
	messageTimeout = 10 * time.Second
	batchTimeout   = 30 * time.Second
	// replicas that lag behind are asked again after lagPause, lagTries times.
	lagPause = 100 * time.Millisecond
	lagTries = 100

	subjectHeader  = "Nats-Subject"
	sequenceHeader = "Nats-Sequence"
	timeHeader     = "Nats-Time-Stamp"
	statusHeader   = "Status"
	statusEnd      = "204"
	statusNone     = "404"
)

// source reads a queue's stream without a consumer: a work queue has no place for one more.
type source struct {
	conn   *nats.Conn
	stream string
	// unfit is how many messages had something that no reader of NATS takes, which was left out.
	unfit uint64
}

// fetched is what came of asking once.
type fetched struct {
	// last sequence that came; 0: none.
	last uint64
	// own messages of the agent among them.
	own uint64
	// unread says that the next one has headers which the library cannot read.
	unread bool
}

// each calls found for the messages between two sequences that there are, in order. Those of the agent's own are
// counted and not shown.
func (s *source) each(ctx context.Context, from, to uint64, found func(*Record) error) (own uint64, err error) {
	inbox, err := s.conn.SubscribeSync(s.conn.NewInbox())
	if err != nil {
		return 0, fmt.Errorf("read the queue: %w", err)
	}
	defer func() { err = errors.Join(err, inbox.Unsubscribe()) }()
	// What was asked for is the limit.
	if err := inbox.SetPendingLimits(-1, -1); err != nil {
		return 0, fmt.Errorf("read the queue: %w", err)
	}
	for next, tries := from, 0; next <= to; {
		got, err := s.fetch(ctx, inbox, next, to, found)
		own += got.own
		if err != nil {
			return own, err
		}
		if got.last >= next {
			next, tries = got.last+1, 0
			if !got.unread {
				continue
			}
		}
		// Any replica may have answered. The leader knows whether there is more.
		ahead, err := s.leaderHas(ctx, next)
		if err != nil {
			return own, err
		}
		if ahead == nil || ahead.Sequence > to {
			return own, nil
		}
		if got.unread {
			ours, err := s.show(ahead.Subject, ahead.Sequence, ahead.Time, looseHeaders(ahead.Headers), ahead.Data, found)
			if err != nil {
				return own, err
			}
			own += ours
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

// fetch asks once.
func (s *source) fetch(
	ctx context.Context, inbox *nats.Subscription, from, to uint64, found func(*Record) error,
) (got fetched, err error) {
	request := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, from, fetchMessages, fetchBytes)
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+s.stream, inbox.Subject, request); err != nil {
		return got, fmt.Errorf("read the queue: %w", err)
	}
	for {
		m, err := next(ctx, inbox)
		if err != nil {
			return got, fmt.Errorf("read the queue: %w", err)
		}
		text := serverHeader(m.Header, sequenceHeader)
		if text == "" {
			switch status := m.Header.Get(statusHeader); status {
			case statusEnd, statusNone:
				return got, nil
			case "":
				got.unread = true // The rest is asked for again.
				continue
			default:
				return got, fmt.Errorf("read the queue: status %q, %s", status, m.Header.Get("Description"))
			}
		}
		if got.unread {
			continue
		}
		sequence, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return got, fmt.Errorf("read the queue: %w", err)
		}
		got.last = sequence
		if sequence > to {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, serverHeader(m.Header, timeHeader))
		if err != nil {
			return got, fmt.Errorf("read message %d of the queue: %w", sequence, err)
		}
		own, err := s.show(serverHeader(m.Header, subjectHeader), sequence, at, m.Header, m.Data, found)
		if err != nil {
			return got, err
		}
		got.own += own
	}
}

func next(ctx context.Context, inbox *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	return inbox.NextMsgWithContext(ctx)
}

// serverHeader is a header that the server has added: the last one, whatever a client has put before it.
func serverHeader(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// show calls found for a message, or counts it if it is the agent's own.
func (s *source) show(
	subject string, sequence uint64, at time.Time, headers nats.Header, payload []byte, found func(*Record) error,
) (own uint64, err error) {
	r := &Record{Sequence: sequence, Time: at, Payload: payload}
	switch {
	case subject == store.DeadSubject(s.stream):
		r.Kind = DeadLetter
	case subject == s.stream || strings.HasPrefix(subject, s.stream+"."):
		r.Suffix = strings.TrimPrefix(subject, s.stream)
	default:
		return 1, nil
	}
	for name, values := range headers {
		if batch.IsControl(name) && name != jetstream.MsgIDHeader && name != jetstream.MsgTTLHeader {
			continue // the answer's, or it has done its work
		}
		if r.Headers == nil {
			r.Headers = make(nats.Header)
		}
		r.Headers[name] = values
	}
	if !fit(r) {
		s.unfit++
	}
	return 0, found(r)
}

// stored is a message as the leader shows it.
type stored struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Headers  []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// leaderHas returns the next message from a sequence on, in the eyes of the member that leads; nil if there is none.
func (s *source) leaderHas(ctx context.Context, from uint64) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := s.conn.RequestWithContext(
		ctx, "$JS.API.STREAM.MSG.GET."+s.stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from),
	)
	if err != nil {
		return nil, fmt.Errorf("ask the queue for its next message: %w", err)
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message *stored             `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, fmt.Errorf("read the queue's answer: %w", err)
	}
	if got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return nil, nil //nolint:nilnil // There is none, and that is no error.
	}
	if got.Error != nil {
		return nil, fmt.Errorf("ask the queue for its next message: %w", got.Error)
	}
	if got.Message == nil || got.Message.Sequence < from {
		return nil, fmt.Errorf("ask the queue for its next message: an answer without one from %d on", from)
	}
	return got.Message, nil
}

// looseHeaders reads what can be read of headers of which some lines are none.
func looseHeaders(block []byte) nats.Header {
	h := make(nats.Header)
	for line := range strings.SplitSeq(string(block), "\n") {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if ok && name != "" {
			h[name] = append(h[name], strings.TrimLeft(value, " \t"))
		}
	}
	return h
}
