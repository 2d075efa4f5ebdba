// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/ids"
)

const (
	// pullHeartbeat is how often a server that has nothing to deliver says so; one that says nothing for three of them is gone.
	pullHeartbeat = 5 * time.Second
	// pullExpiry is how long one request for messages holds.
	pullExpiry = time.Minute

	statusHeader     = "Status"
	statusHeartbeat  = "100"
	statusNoMessages = "404"
	statusTimeout    = "408"
	statusConflict   = "409"
)

// puller asks a consumer for messages, never for more than fit into memory, and loses none of them: the client library's own iterators
// drop some when statuses of the server come on top of all that they asked for.
type puller struct {
	conn         *nats.Conn
	subscription *nats.Subscription
	request      []byte
	subject      string
	batch        int
	// asked for and not delivered yet.
	asked int
	// deliveries so far.
	delivered uint64
}

// errConsumer says that the consumer is not there any more or that its server wants to be asked anew.
var errConsumer = errors.New("the channel's consumer ended")

// newPuller returns one that asks for so many messages and bytes at a time. A single message has to fit into the bytes.
func newPuller(conn *nats.Conn, stream, consumer string, batch, bytes int) (*puller, error) {
	request, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Bytes     int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{batch, bytes, pullExpiry, pullHeartbeat})
	if err != nil {
		return nil, fmt.Errorf("ask the queue for messages: %w", err)
	}
	subscription, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("ask the queue for messages: %w", err)
	}
	p := &puller{conn: conn, subscription: subscription, request: request, batch: batch, subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer}
	// What was asked for is the limit.
	if err := subscription.SetPendingLimits(-1, -1); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the queue for messages: %w", err), p.close())
	}
	return p, nil
}

func (p *puller) close() error { return p.subscription.Unsubscribe() }

// next waits for a message.
func (p *puller) next(ctx context.Context) (*letter, error) {
	for {
		if p.asked == 0 {
			if err := p.conn.PublishRequest(p.subject, p.subscription.Subject, p.request); err != nil {
				return nil, fmt.Errorf("ask the queue for messages: %w", err)
			}
			p.asked = p.batch
		}
		m, err := p.receive(ctx)
		if err != nil {
			return nil, err
		}
		if status := m.Header.Get(statusHeader); status != "" && m.Reply == "" {
			if err := p.heard(status, m.Header.Get("Description")); err != nil {
				return nil, err
			}
			continue
		}
		p.asked--
		return p.letter(m)
	}
}

func (p *puller) receive(ctx context.Context) (*nats.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, 3*pullHeartbeat)
	defer cancel()
	m, err := p.subscription.NextMsgWithContext(waiting)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: nothing was heard of it: %w", errConsumer, err)
	}
	return m, nil
}

// heard takes what the server says of a request.
func (p *puller) heard(status, description string) error {
	switch {
	case status == statusHeartbeat:
		return nil
	case status == statusTimeout || status == statusNoMessages,
		// As many bytes as were asked for, and all of them but for those that the next message is too long for.
		status == statusConflict && description == "Batch Completed",
		status == statusConflict && description == "Message Size Exceeds MaxBytes" && p.asked < p.batch:
		p.asked = 0
		return nil
	default:
		return fmt.Errorf("%w: %s", errConsumer, description)
	}
}

func (p *puller) letter(m *nats.Msg) (*letter, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read from the queue: %w", err)
	}
	// A hole here would be filled by a later delivery, which would be too late.
	if p.delivered++; meta.Sequence.Consumer != p.delivered {
		return nil, fmt.Errorf("%w: delivery %d came where %d was expected", errConsumer, meta.Sequence.Consumer, p.delivered)
	}
	return &letter{
		id:       ids.Message{ID: []byte(m.Header.Get(jetstream.MsgIDHeader)), Sequence: meta.Sequence.Stream, Stored: meta.Timestamp},
		sequence: meta.Sequence.Stream, reply: m.Reply, subject: m.Subject, headers: m.Header, payload: m.Data, stored: meta.Timestamp,
	}, nil
}
