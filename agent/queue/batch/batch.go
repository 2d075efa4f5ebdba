// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch stores messages that come from another stream: many of them at once or none, without the headers that
// have done their work there.
package batch

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
	"github.com/nats-io/nuid"
)

// The headers of JetStream's atomic publishing.
const (
	idHeader       = "Nats-Batch-Id"
	sequenceHeader = "Nats-Batch-Sequence"
	commitHeader   = "Nats-Batch-Commit"
)

// OriginHeader is what a message's Nats-Msg-Id is called behind its stream, which has looked for duplicates of it; the
// next one need not.
const OriginHeader = "Lighterage-Message-Id"

// controlPrefix is that of the headers by which clients steer JetStream.
const controlPrefix = "nats-"

// IsControl reports whether a header steers JetStream. Whoever stores messages of others must not let them do so.
func IsControl(name string) bool {
	return len(name) >= len(controlPrefix) && strings.EqualFold(name[:len(controlPrefix)], controlPrefix)
}

// LifeLeft is what is left of a message's own time to live, a second at least; 0 if it has none.
func LifeLeft(h nats.Header, stored, now time.Time) time.Duration {
	text := h.Get(jetstream.MsgTTLHeader)
	if text == "" {
		return 0
	}
	life, err := time.ParseDuration(text)
	if err != nil {
		if life, err = time.ParseDuration(text + "s"); err != nil {
			return 0 // "never": as long as the next stream says
		}
	}
	return max(life-now.Sub(stored), time.Second).Truncate(time.Second)
}

// Publish stores messages at once or not at all, and returns the sequence of the last one. They get headers of
// JetStream's. Where the stream refuses them the error is a *jetstream.APIError; after another one it is not known
// whether they are stored.
func Publish(ctx context.Context, conn *nats.Conn, messages []*nats.Msg) (uint64, error) {
	id := nuid.Next()
	for i, m := range messages {
		m.Header.Set(idHeader, id)
		m.Header.Set(sequenceHeader, strconv.Itoa(i+1))
		last := i == len(messages)-1
		if last {
			m.Header.Set(commitHeader, "1")
		}
		if i > 0 && !last {
			if err := conn.PublishMsg(m); err != nil {
				return 0, fmt.Errorf("publish a message: %w", err)
			}
			continue
		}
		// The first one is answered, too: it tells why a batch cannot begin.
		answer, err := conn.RequestMsgWithContext(ctx, m)
		if err != nil {
			return 0, fmt.Errorf("wait for the stream to store a batch: %w", err)
		}
		if len(answer.Data) == 0 && !last {
			continue
		}
		var ack struct {
			Sequence uint64              `json:"seq"`
			Error    *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return 0, fmt.Errorf("read the stream's answer: %w", err)
		}
		if ack.Error != nil {
			return 0, ack.Error
		}
		if !last {
			return 0, errors.New("the stream ended a batch before its end")
		}
		return ack.Sequence, nil
	}
	return 0, errors.New("a batch without messages")
}
