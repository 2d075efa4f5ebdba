// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// maxBatch is how many messages or receipts a call has at most.
	maxBatch = 256
	// maxBatchBytes bounds a call with several messages. Every Queue takes a mebibyte above its longest message.
	maxBatchBytes = 900 << 10
)

// Message is what is put and got.
type Message struct {
	// ID by which the Queue finds a repeated put, and stores it once; up to 256 printable characters. Empty: each put is
	// stored.
	ID string
	// Key of messages whose order counts; up to 256 printable characters. Empty: the order does not count.
	Key string
	// Headers of the sender's own, up to 32 KiB together. Names are tokens of HTTP; the Queue rejects those that begin
	// with Nats- or Lighterage-.
	Headers map[string]string
	// Payload in bytes, up to spec.limits.maxMessageSize of the Queue.
	Payload []byte
}

// Stored says where a message is.
type Stored struct {
	// Sequence of the message in the Queue, from 1; 0: it is not known to be stored.
	Sequence uint64
	// Duplicate: the Queue had a message with this ID. A put that was repeated because its answer was lost is one, too.
	Duplicate bool
}

// Why a message is not stored. [PutError] wraps one of these.
var (
	// ErrInvalid: the Queue does not allow the message.
	ErrInvalid = errors.New("the message is not allowed")
	// ErrFull: a limit of the Queue has no space for the message now, or for its ID within spec.duplicateWindow.
	ErrFull = errors.New("the queue is full")
	// ErrUnknown: no answer came. The message may be stored; a put with the same ID finds out.
	ErrUnknown = errors.New("it is unknown whether the message is stored")
)

// PutError says which message is not stored.
type PutError struct {
	// Index of the message among those of the call, from 0, and its ID.
	Index int
	ID    string
	// Err is ErrInvalid, ErrFull or ErrUnknown, with what the Queue says.
	Err error
}

// Error implements error.
func (e *PutError) Error() string {
	if e.ID != "" {
		return fmt.Sprintf("put message %d (id %q): %v", e.Index, e.ID, e.Err)
	}
	return fmt.Sprintf("put message %d: %v", e.Index, e.Err)
}

// Unwrap returns the reason.
func (e *PutError) Unwrap() error { return e.Err }

// NewID returns a random ID of 26 characters.
func NewID() string { return rand.Text() }

// Put stores messages in order, in as many calls as that takes: up to 256 messages of 900 KiB together in one, and one
// message of each key. It returns a result for each message that was sent. After a message that is not stored, those
// of the same call may be stored, and no further call is made; the error is of the first one.
func (c *Client) Put(ctx context.Context, messages ...Message) ([]Stored, error) {
	out := make([]Stored, 0, len(messages))
	for rest := messages; len(rest) > 0; {
		n := batch(rest)
		stored, err := c.putBatch(ctx, rest[:n], len(out))
		out = append(out, stored...)
		if err != nil {
			return out, err
		}
		rest = rest[n:]
	}
	return out, nil
}

// batch is how many of the first messages go into a call.
func batch(messages []Message) int {
	keys := map[string]bool{}
	bytes := 0
	for i, m := range messages {
		bytes += 64 + len(m.ID) + len(m.Key) + len(m.Payload)
		for name, value := range m.Headers {
			bytes += 16 + len(name) + len(value)
		}
		if i == maxBatch || i > 0 && bytes > maxBatchBytes || keys[m.Key] {
			return i
		}
		if m.Key != "" {
			keys[m.Key] = true
		}
	}
	return len(messages)
}

// putBatch makes one call, and repeats it for messages that have IDs. before is how many messages other calls had.
func (c *Client) putBatch(ctx context.Context, messages []Message, before int) ([]Stored, error) {
	waiting := make([]int, len(messages))
	results := make([]*messagesv1.PutResult, len(messages))
	for i := range messages {
		waiting[i] = i
	}
	may := retryable{Client: c}
	sent := false // what an attempt without a result may have stored
	err := c.repeat(ctx, 0, func(ctx context.Context) (bool, error) {
		request := &messagesv1.PutRequest{}
		for _, i := range waiting {
			m := messages[i]
			request.Messages = append(
				request.Messages, &messagesv1.QueueMessage{Id: m.ID, Key: m.Key, Headers: m.Headers, Payload: m.Payload},
			)
		}
		response, err := c.service.Put(ctx, request)
		if err != nil {
			sent = sent || may.served(err)
			return may.again(ctx, err) && identified(messages, waiting), c.failed("put messages", err)
		}
		if len(response.GetResults()) != len(waiting) {
			sent = true
			return false, miscounted("put messages", len(response.GetResults()), len(waiting))
		}
		var unknown []int
		for i, result := range response.GetResults() {
			results[waiting[i]] = result
			if result.GetRefused() == messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN && messages[waiting[i]].ID != "" {
				unknown = append(unknown, waiting[i])
			}
		}
		waiting = unknown
		return len(waiting) > 0, nil
	})
	return judge(messages, results, before, err, sent)
}

// identified is true when all of these messages have IDs.
func identified(messages []Message, these []int) bool {
	for _, i := range these {
		if messages[i].ID == "" {
			return false
		}
	}
	return true
}

// judge makes of the last result of each message what Put returns. failed is the error of the last attempt; maybe says
// that messages without a result may be stored.
func judge(
	messages []Message, results []*messagesv1.PutResult, before int, failed error, maybe bool,
) ([]Stored, error) {
	out := make([]Stored, len(messages))
	var first error
	for i, result := range results {
		out[i] = Stored{result.GetSequence(), result.GetDuplicate()}
		var why error
		switch {
		case result == nil && maybe:
			why = fmt.Errorf("%w: %w", ErrUnknown, failed)
		case result == nil:
			return out, failed // the call was rejected, with all its messages
		case result.GetRefused() == messagesv1.PutRefusal_PUT_REFUSAL_UNSPECIFIED:
			continue
		case result.GetRefused() == messagesv1.PutRefusal_PUT_REFUSAL_INVALID:
			why = fmt.Errorf("%w: %s", ErrInvalid, result.GetError())
		case result.GetRefused() == messagesv1.PutRefusal_PUT_REFUSAL_FULL:
			why = fmt.Errorf("%w: %s", ErrFull, result.GetError())
		default:
			why = fmt.Errorf("%w: %s", ErrUnknown, result.GetError())
		}
		if first == nil {
			first = &PutError{Index: before + i, ID: messages[i].ID, Err: why}
		}
	}
	return out, first
}
