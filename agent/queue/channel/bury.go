// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// bury moves letters that cannot be sent to the dead letters of the queue, and returns the others. It does so before
// anything behind them is sent: the position says then that they are done with.
func (x *session) bury(ctx context.Context, js jetstream.JetStream, letters []*letter) ([]*letter, error) {
	sound := letters[:0]
	for _, l := range letters {
		if l.unsendable == nil {
			sound = append(sound, l)
			continue
		}
		if x.share != nil {
			// Another of several channels may have buried it since it was read here.
			if there, err := x.look(ctx, l.sequence); err != nil {
				return nil, err
			} else if there == nil {
				continue
			}
		}
		if err := x.storeDead(ctx, js, l); err != nil {
			return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
				"message %d of the queue cannot be sent (%w), and cannot become a dead letter either (%w): get dead letters from "+
					"this queue, or raise its limits or storage",
				l.sequence, l.unsendable, err)
		}
		x.options.Log.Warn(
			"Message cannot be sent and is a dead letter now", "stream", x.options.Stream, "sequence", l.sequence, "cause",
			l.unsendable.Error(),
		)
		x.status.update(func(now *wirev1.ChannelStatus) { now.DeadLetters++ })
		if err := x.drop(ctx, js, l); err != nil {
			return nil, err
		}
	}
	return sound, nil
}

// drop removes a message that no queue can have.
func (x *session) drop(ctx context.Context, js jetstream.JetStream, l *letter) error {
	if x.share == nil {
		return acknowledge(x.options.Conn, x.options.IDs, []string{l.reply}, []ids.Message{l.id})
	}
	if err := acknowledge(x.options.Conn, x.options.IDs, nil, []ids.Message{l.id}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, x.options.Stream)
	if err == nil {
		// Another of the channels may have been faster.
		if err = stream.DeleteMsg(ctx, l.sequence); errors.Is(err, jetstream.ErrMsgNotFound) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove a message that is a dead letter now: %w", err)
	}
	return nil
}

// storeDead stores the dead letter of a letter, once.
func (x *session) storeDead(ctx context.Context, js jetstream.JetStream, l *letter) error {
	// A dead letter may stay longer than the dictionary of its message.
	headers, payload, err := x.options.Decoding.Ordinary(l.headers, l.payload)
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return err
	}
	dead := envelope.DeadLetter(store.DeadSubject(x.options.Stream), &nats.Msg{Header: headers, Data: payload}, l.sequence,
		&messagesv1.DeadLetter{Reason: envelope.Unsendable, Detail: envelope.Printable(l.unsendable.Error())})
	if _, ok := ids.Known(x.options.IDs, []byte(dead.Header.Get(nats.MsgIdHdr))); ok {
		return nil // It was stored and read before, and whoever stored it was killed before it acknowledged the letter.
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// A duplicate is the same dead letter: nothing else has such an id.
	if _, err := js.PublishMsg(ctx, dead); err != nil {
		return fmt.Errorf("store the dead letter: %w", err)
	}
	return nil
}
