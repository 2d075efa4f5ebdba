// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scan reads the stream of a queue without a consumer: a work queue has no place for one more.
package scan

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
)

const (
	// requestTimeout is how long JetStream may take to answer. A leader that has just ended never does.
	requestTimeout = 5 * time.Second
	// messageTimeout is how long it may take from one message to the next of those that were asked for.
	messageTimeout = 10 * time.Second

	subjectHeader  = "Nats-Subject"
	sequenceHeader = "Nats-Sequence"
	timeHeader     = "Nats-Time-Stamp"
	statusHeader   = "Status"
	statusEnd      = "204"
	statusNone     = "404"
)

// Message is one as the stream has it.
type Message struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	// Header has those that the server added to its answer as well, all of which batch.IsControl knows.
	Header  nats.Header
	Payload []byte
	// Unread reports whether Header lacks lines, since the library of NATS cannot read them.
	Unread bool
}

// Reader reads one stream. It is for one goroutine at a time.
type Reader struct {
	conn   *nats.Conn
	stream string
	inbox  *nats.Subscription
}

// NewReader returns one that must be closed.
func NewReader(conn *nats.Conn, stream string) (*Reader, error) {
	inbox, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	// What was asked for is the limit.
	if err := inbox.SetPendingLimits(-1, -1); err != nil {
		return nil, errors.Join(fmt.Errorf("read the queue: %w", err), inbox.Unsubscribe())
	}
	return &Reader{conn: conn, stream: stream, inbox: inbox}, nil
}

// Close ends the reader.
func (r *Reader) Close() error { return r.inbox.Unsubscribe() }

// Fetch calls found with messages from a sequence on, in order: as many as are asked for, or fewer where these have so
// many bytes, or where a replica that lags behind has no more. It returns the last sequence that came; 0: none did.
// unread says that the next message has headers which the library of NATS cannot read: Ahead returns it.
func (r *Reader) Fetch(
	ctx context.Context, from uint64, messages, bytes int, found func(*Message) error,
) (last uint64, unread bool, err error) {
	request := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, from, messages, bytes)
	if err := r.conn.PublishRequest("$JS.API.DIRECT.GET."+r.stream, r.inbox.Subject, request); err != nil {
		return 0, false, fmt.Errorf("read the queue: %w", err)
	}
	for {
		m, err := r.next(ctx)
		if err != nil {
			return last, unread, fmt.Errorf("read the queue: %w", err)
		}
		text := added(m.Header, sequenceHeader)
		if text == "" {
			switch status := m.Header.Get(statusHeader); status {
			case statusEnd, statusNone:
				return last, unread, nil
			case "":
				unread = true // The rest is asked for again.
				continue
			default:
				return last, unread, fmt.Errorf("read the queue: status %q, %s", status, m.Header.Get("Description"))
			}
		}
		if unread {
			continue
		}
		sequence, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return last, unread, fmt.Errorf("read the queue: %w", err)
		}
		last = sequence
		at, err := time.Parse(time.RFC3339Nano, added(m.Header, timeHeader))
		if err != nil {
			return last, unread, fmt.Errorf("read message %d of the queue: %w", sequence, err)
		}
		if err := found(&Message{
			Subject: added(m.Header, subjectHeader), Sequence: sequence, Time: at, Header: m.Header, Payload: m.Data,
		}); err != nil {
			return last, unread, err
		}
	}
}

func (r *Reader) next(ctx context.Context) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	return r.inbox.NextMsgWithContext(ctx)
}

// added is a header that the server has added: the last one, whatever a client has put before it.
func added(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// stored is a message as the leader shows it.
type stored struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Headers  []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// Ahead returns the next message from a sequence on, in the eyes of the member that leads; nil if there is none. Of
// headers of which some lines are none it has those that are.
func (r *Reader) Ahead(ctx context.Context, from uint64) (*Message, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := r.conn.RequestWithContext(
		ctx, "$JS.API.STREAM.MSG.GET."+r.stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from),
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
	m := got.Message
	next := &Message{Subject: m.Subject, Sequence: m.Sequence, Time: m.Time, Payload: m.Data}
	if len(m.Headers) == 0 {
		return next, nil
	}
	if next.Header, err = nats.DecodeHeadersMsg(m.Headers); err != nil {
		next.Header, next.Unread = looseHeaders(m.Headers), true
	}
	return next, nil
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
