// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pullHeartbeat is how often a server that has nothing to deliver says so; one that says
	// nothing for three of them is gone.
	pullHeartbeat = 5 * time.Second
	pullExpiry    = time.Minute
	// pullBatch is how many messages are asked for at a time.
	pullBatch = 512

	statusHeader     = "Status"
	statusHeartbeat  = "100"
	statusNoMessages = "404"
	statusTimeout    = "408"
	statusConflict   = "409"
)

// errConsumer says that the consumer is not there any more, or not the one it was.
var errConsumer = errors.New("the consumer ended")

// puller asks a consumer for no more messages than there is room for.
type puller struct {
	conn         *nats.Conn
	subscription *nats.Subscription
	subject      string
	// letters is what comes. It has room for all that can.
	letters chan *nats.Msg
	// asked for and not delivered yet, since when something was heard, and deliveries so far.
	asked     int
	heard     time.Time
	delivered uint64
}

func newPuller(conn *nats.Conn, stream, consumer string) (*puller, error) {
	p := &puller{conn: conn, letters: make(chan *nats.Msg, 2*windowMessages), subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer}
	var err error
	if p.subscription, err = conn.ChanSubscribe(conn.NewInbox(), p.letters); err != nil {
		return nil, fmt.Errorf("ask the queue for messages: %w", err)
	}
	return p, nil
}

func (p *puller) close() { _ = p.subscription.Unsubscribe() } // fails only when the connection is closed

// ask asks for messages, if there is room for some and nothing is under way.
func (p *puller) ask(now time.Time, room, bytes, longest int) error {
	if p.asked > 0 || room <= 0 || bytes < longest {
		return nil
	}
	batch := min(room, pullBatch)
	request, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Bytes     int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{batch, bytes, pullExpiry, pullHeartbeat})
	if err != nil {
		return fmt.Errorf("ask the queue for messages: %w", err)
	}
	if err := p.conn.PublishRequest(p.subject, p.subscription.Subject, request); err != nil {
		return fmt.Errorf("ask the queue for messages: %w", err)
	}
	p.asked, p.heard = batch, now
	return nil
}

// take looks at what came: a message, whose place it returns, or something else.
func (p *puller) take(m *nats.Msg, now time.Time) (*nats.MsgMetadata, error) {
	p.heard = now
	if status := m.Header.Get(statusHeader); status != "" && m.Reply == "" {
		return nil, p.status(status, m.Header.Get("Description"))
	}
	at, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read from the queue: %w", err)
	}
	// A hole would be filled by a later delivery, which would be too late.
	if p.delivered++; at.Sequence.Consumer != p.delivered {
		return nil, fmt.Errorf("%w: delivery %d came where %d was expected", errConsumer, at.Sequence.Consumer, p.delivered)
	}
	p.asked = max(p.asked-1, 0)
	return at, nil
}

func (p *puller) status(status, description string) error {
	switch {
	case status == statusHeartbeat:
		return nil
	case status == statusTimeout || status == statusNoMessages,
		// As many bytes as were asked for.
		status == statusConflict && (description == "Batch Completed" || description == "Message Size Exceeds MaxBytes"):
		p.asked = 0
		return nil
	default:
		return fmt.Errorf("%w: %s %s", errConsumer, status, description)
	}
}

// silent reports whether the server should have been heard.
func (p *puller) silent(now time.Time) bool { return p.asked > 0 && now.Sub(p.heard) > 3*pullHeartbeat }
