// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/message"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// Put implements messagesv1.MessageServiceServer.
func (s *Service) Put(ctx context.Context, r *messagesv1.PutRequest) (*messagesv1.PutResponse, error) {
	if len(r.GetMessages()) == 0 || len(r.GetMessages()) > dispatch.MaxBatch {
		return nil, invalid("%d messages: use 1 to %d", len(r.GetMessages()), dispatch.MaxBatch)
	}
	prepared, results, err := s.prepare(ctx, r.GetMessages())
	if err != nil {
		return nil, err
	}
	defer drop(ctx) // the answer is short
	// The stream stores them in the order in which they are sent.
	futures := make([]jetstream.PubAckFuture, len(prepared))
	for i, m := range prepared {
		if m == nil {
			continue
		}
		id := []byte(m.Header.Get(nats.MsgIdHdr))
		if sequence, ok := ids.Known(s.options.IDs, id); ok {
			results[i] = &messagesv1.PutResult{Sequence: sequence, Duplicate: true}
			continue
		}
		if why := s.options.Quota.Admit(id); why != "" {
			results[i] = &messagesv1.PutResult{Refused: messagesv1.PutRefusal_PUT_REFUSAL_FULL, Error: why}
			continue
		}
		// Without patience: the connection is one within the process.
		if futures[i], err = s.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0)); err != nil {
			results[i] = refusal(err)
		}
	}
	for i, future := range futures {
		if future != nil {
			results[i] = await(ctx, future)
		}
		if results[i].GetRefused() != messagesv1.PutRefusal_PUT_REFUSAL_UNSPECIFIED {
			s.options.Front.Count(front.RefusedPuts)
		} else {
			s.options.Front.Count(front.Puts)
			if results[i].GetDuplicate() {
				s.options.Front.Count(front.Duplicates)
			}
			session(ctx).Count(1, 0, 0)
		}
	}
	return &messagesv1.PutResponse{Results: results}, nil
}

// await waits until a message is stored.
func await(ctx context.Context, future jetstream.PubAckFuture) *messagesv1.PutResult {
	select {
	case ack := <-future.Ok():
		return &messagesv1.PutResult{Sequence: ack.Sequence, Duplicate: ack.Duplicate}
	case err := <-future.Err():
		return refusal(err)
	case <-ctx.Done():
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN, Error: "the request ended before the message was stored",
		}
	}
}

// refusal says why the stream did not store a message.
func refusal(err error) *messagesv1.PutResult {
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN,
			Error: fmt.Sprintf(
				"the message was not sent, because too many wait for the stream to store them; put it again later, with its id "+
					"(%v)",
				err,
			),
		}
	case errors.Is(err, nats.ErrMaxPayload):
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_INVALID,
			Error: fmt.Sprintf(
				"the message with its headers is longer than the queue stores: shorten its headers or its payload (%v)", err,
			),
		}
	case !errors.As(err, &refused):
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN,
			Error:   fmt.Sprintf("the stream did not answer; put the message again, with its id (%v)", err),
		}
	case jetstreamerror.Full(err):
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_FULL,
			Error:   fmt.Sprintf("the queue is full: consume messages, or raise its limits or storage (%v)", err),
		}
	default:
		return &messagesv1.PutResult{
			Refused: messagesv1.PutRefusal_PUT_REFUSAL_INVALID, Error: fmt.Sprintf("the stream refuses the message: %v", err),
		}
	}
}

// prepare makes what is stored of messages. A message that may not be has a result and no
// entry among these.
func (s *Service) prepare(
	ctx context.Context, messages []*messagesv1.QueueMessage,
) ([]*nats.Msg, []*messagesv1.PutResult, error) {
	end, err := s.turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	settings := s.options.Front.Settings()
	encoder, err := settings.Encoding.Encoder()
	if err != nil {
		return nil, nil, status.Errorf(codes.Unavailable, "compress messages: %v", err)
	}
	defer encoder.Release()
	out, results := make([]*nats.Msg, len(messages)), make([]*messagesv1.PutResult, len(messages))
	for i, q := range messages {
		if out[i], err = s.encode(encoder, settings, q); err != nil {
			results[i] = &messagesv1.PutResult{Refused: messagesv1.PutRefusal_PUT_REFUSAL_INVALID, Error: err.Error()}
		}
	}
	return out, results, nil
}

// encode makes what is stored of a message.
func (s *Service) encode(encoder *message.Encoder, settings front.Settings, q *messagesv1.QueueMessage) (*nats.Msg,
	error) {
	m, err := envelope.New(s.options.Queue, q)
	if err != nil {
		return nil, err
	}
	m.Data = q.GetPayload()
	form, err := envelope.ParseForm(q.GetStoredForm())
	if err != nil {
		return nil, err
	}
	if form.Dictionary != 0 {
		return nil, envelope.ErrDictionary
	}
	if !form.Plain() {
		decoder, err := settings.Decoding.Decoder()
		if err != nil {
			return nil, err
		}
		defer decoder.Release()
		s.options.Front.Decoded().AddCPU(meter.ThreadCPU(func() {
			_, _, err = decoder.Decode(nil, form, m.Data, settings.MaxMessageSize)
		}))
		if err != nil {
			return nil, fmt.Errorf("stored_form: %w", err)
		}
		s.options.Front.Encoded().Add(
			meter.Outcome{Path: meter.Stored, Reason: message.AlreadyEncoded, PlainBytes: len(m.Data), WireBytes: len(m.Data)},
		)
		envelope.SetForm(m, form)
		return m, nil
	}
	if len(m.Data) > settings.MaxMessageSize {
		return nil, fmt.Errorf(
			"%w: %d bytes; the limit is %d, limits.maxMessageSize of the queue", envelope.ErrInvalid, len(m.Data),
			settings.MaxMessageSize,
		)
	}
	decides := s.options.Front.Classes()
	var choice classes.Choice
	if _, skips := settings.Encoding.Skips(len(m.Data)); !skips {
		if choice = decides.Choose(settings.Encoding, []byte(m.Subject), m.Data); choice.Reason != "" {
			s.options.Front.Encoded().AddStored(choice.Reason, 1, len(m.Data))
			return m, nil
		}
	}
	var payload []byte
	var outcome meter.Outcome
	spent := meter.ThreadCPU(func() { payload, form, outcome, err = decides.Encode(choice, encoder, nil, m.Data) })
	if err != nil {
		s.options.Front.EngineFailed(err)
	}
	if message.Worked(outcome) {
		outcome.CPU = spent
	}
	s.options.Front.Encoded().Add(outcome)
	if !form.Plain() {
		m.Data = payload
		envelope.SetForm(m, form)
	}
	return m, nil
}

// plain makes messages plain unless they are wanted as they are stored.
func (s *Service) plain(
	ctx context.Context, messages []*messagesv1.ReceivedMessage, stored func(*messagesv1.QueueMessage) bool,
) error {
	end, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	decoder, err := s.options.Front.Settings().Decoding.Decoder()
	if err != nil {
		return status.Errorf(codes.Unavailable, "inflate messages: %v", err)
	}
	defer decoder.Release()
	worked := false
	var later *message.DictionaryError
	spent := meter.ThreadCPU(func() {
		for _, m := range messages {
			q := m.GetMessage()
			if m.GetDamage() != "" {
				s.options.Front.CountUndecodable(errors.New(m.GetDamage()))
			}
			s.options.Front.Count(front.Gets)
			if q.GetStoredForm() == nil {
				continue
			}
			if q.GetStoredForm().GetDictionary() == 0 && stored(q) { // Clients have no dictionaries.
				s.options.Front.Count(front.StoredGets)
				continue
			}
			worked = true
			if err := s.inflate(decoder, q); errors.As(err, &later) {
				return
			} else if err != nil {
				s.options.Front.CountUndecodable(err)
				m.Damage = strings.ToValidUTF8(err.Error(), "\ufffd")
			}
		}
	})
	if worked {
		s.options.Front.Decoded().AddCPU(spent)
	}
	if later != nil {
		return status.Errorf(codes.Unavailable, "inflate messages: %v", later)
	}
	return nil
}

func (s *Service) inflate(decoder *message.Decoder, q *messagesv1.QueueMessage) error {
	form, err := envelope.ParseForm(q.GetStoredForm())
	if err != nil {
		return err
	}
	// It was allowed when it was put.
	payload, outcome, err := decoder.Decode(nil, form, q.GetPayload(), message.MaxLength)
	if err != nil {
		return err
	}
	s.options.Front.Decoded().Add(outcome)
	q.Payload, q.StoredForm = payload, nil
	return nil
}
