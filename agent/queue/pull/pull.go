// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pull asks a consumer of JetStream for messages, never for more than there is space for, and loses none of
// them: the client library's own iterators drop some when statuses of the server come on top of all that they asked
// for.
package pull

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// heartbeat is how often a server that has nothing to deliver says so.
	heartbeat = 5 * time.Second
	// expiry is how long one request for messages holds.
	expiry = time.Minute

	// Silence is after what time without a message the server is gone, when something was asked for.
	Silence = 3 * heartbeat

	statusHeader     = "Status"
	statusHeartbeat  = "100"
	statusNoMessages = "404"
	statusTimeout    = "408"
	statusConflict   = "409"
	// Of a conflict, what ends a request without harm.
	batchCompleted, sizeExceeded = "Batch Completed", "Message Size Exceeds MaxBytes"
)

// ErrConsumer says that the consumer is not there any more, is not the one it was, or that its server wants to be asked
// again.
var ErrConsumer = errors.New("the consumer ended")

// Puller asks one consumer. It is for one goroutine at a time.
type Puller struct {
	conn    *nats.Conn
	subject string
	inbox   string
	// request is where the last request is answered: what is said of one before that does not matter any more.
	request  string
	requests uint64
	// batch is what was asked for last, asked and bytes what of it was not delivered yet.
	batch, asked, bytes int
	// delivered is how many messages came so far.
	delivered uint64
}

// New returns one that asks a consumer of a stream, which nobody else has asked before.
func New(conn *nats.Conn, stream, consumer string) *Puller {
	return &Puller{
		conn: conn, inbox: conn.NewInbox() + ".", subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
	}
}

// Inbox is the subject to subscribe to before anything is asked for.
func (p *Puller) Inbox() string { return p.inbox + "*" }

// Asked reports whether messages were asked for that did not come yet.
func (p *Puller) Asked() bool { return p.asked > 0 }

// Ask asks for so many messages and bytes at most. Nothing may be asked for yet, and a single message has to fit into
// the bytes.
func (p *Puller) Ask(batch, bytes int) error {
	request, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Bytes     int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{batch, bytes, expiry, heartbeat})
	if err != nil {
		return fmt.Errorf("ask the queue for messages: %w", err)
	}
	p.requests++
	p.request = p.inbox + strconv.FormatUint(p.requests, 10)
	if err := p.conn.PublishRequest(p.subject, p.request, request); err != nil {
		return fmt.Errorf("ask the queue for messages: %w", err)
	}
	p.batch, p.asked, p.bytes = batch, batch, bytes
	return nil
}

// Unheard takes back what was asked for last, which nobody heard: a server that knows of nobody to hear it says so
// instead of any answer.
func (p *Puller) Unheard() { p.asked = 0 }

// Take looks at what came to the subscription. It returns the place of a message, and nil for what only says how a
// request is. After an error the consumer has to be recreated: ErrConsumer, or that a message is none of JetStream's.
func (p *Puller) Take(m *nats.Msg) (*nats.MsgMetadata, error) {
	if status := m.Header.Get(statusHeader); status != "" && m.Reply == "" {
		return nil, p.hear(status, m.Header.Get("Description"), m.Subject == p.request)
	}
	at, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read from the queue: %w", err)
	}
	// A hole would be filled by a later delivery, which would be too late.
	if p.delivered++; at.Sequence.Consumer != p.delivered {
		return nil, fmt.Errorf("%w: delivery %d came where %d was expected", ErrConsumer, at.Sequence.Consumer, p.delivered)
	}
	// A request ends with its last byte, too, and then nothing says so.
	p.asked, p.bytes = max(p.asked-1, 0), p.bytes-m.Size()
	if p.bytes <= 0 {
		p.asked = 0
	}
	return at, nil
}

// hear takes what the server says of a request, the last one or one before.
func (p *Puller) hear(status, description string, last bool) error {
	switch {
	case status == statusHeartbeat:
		return nil
	case status == statusTimeout || status == statusNoMessages,
		// All messages that were asked for, which may be said when more were asked for since then.
		status == statusConflict && description == batchCompleted,
		// All bytes that were asked for, but for those that the next message is too long for.
		status == statusConflict && description == sizeExceeded && (!last || p.asked < p.batch):
		if last {
			p.asked = 0
		}
		return nil
	default:
		return fmt.Errorf("%w: %s %s", ErrConsumer, status, description)
	}
}
