// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/sampling"
)

// SampleLimits bound how long a sample keeps a member busy; one message at a time is held.
var SampleLimits = sampling.Limits{Bytes: 32 << 20, Items: 4096, Duration: time.Minute}

// Sample gives stored messages, inflated, and consumes none. It implements sampling.Source.
func (a *Agent) Sample(ctx context.Context, r sampling.Request, give func(sampling.Item) error) (sampling.Seen, error) {
	running := a.running.Load()
	if running == nil {
		return sampling.Seen{}, sampling.ErrNotReady
	}
	content, err := running.store.Statistics(ctx, running.conn)
	if err != nil {
		return sampling.Seen{}, err
	}
	seen := sampling.Seen{Items: int64(content.Messages), Bytes: int64(content.Bytes)}
	decoder, err := running.channels.decoding.Decoder()
	if err != nil {
		return seen, err
	}
	defer decoder.Release()
	var plain []byte
	var bytes int64
	items := 0
	err = running.store.Sample(ctx, running.conn, r.Seed, func(header nats.Header, payload []byte) (bool, error) {
		var err error
		plain, err = inflate(decoder, plain[:0], header, payload)
		if err != nil {
			seen.Unreadable++
			return true, nil //nolint:nilerr // It is counted. What is wrong is for who gets the message.
		}
		if len(plain) == 0 {
			return true, nil
		}
		whole := int64(len(plain))
		part := plain[:min(len(plain), sampling.MaxItem)]
		if bytes+int64(len(part)) > r.MaxBytes {
			return false, nil
		}
		bytes, items = bytes+int64(len(part)), items+1
		if err := give(sampling.Item{Content: part, Length: whole}); err != nil {
			return false, fmt.Errorf("give out a sample: %w", err)
		}
		return items < r.MaxItems, nil
	})
	return seen, err
}

// inflate appends the plain payload of a message.
func inflate(d *message.Decoder, dst []byte, header nats.Header, payload []byte) ([]byte, error) {
	form, err := message.FormOf(header)
	if err != nil {
		return dst, err
	}
	dst, _, err = d.Decode(dst, form, payload, message.MaxLength)
	return dst, err
}
