// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/queue/ids"
)

const (
	idHeader    = "\r\nNats-Msg-Id:"
	batchHeader = "Nats-Batch-Id"

	// errDuplicateInBatch is what the server says of such a message.
	errDuplicateInBatch = 10201
)

// messageID returns the id of a message as the server reads it, empty if it has none.
func messageID(header []byte) []byte {
	_, value, ok := bytes.Cut(header, []byte(idHeader))
	if !ok {
		return nil
	}
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	return bytes.TrimLeft(value, " ")
}

// known reports whether the message with the id of a put was given before the server was
// started, which may not know it any more, and notes its sequence.
func (f *Front) known(op *operation) (ok bool) {
	if op.header == nil || f.options.IDs == nil || !f.options.IDs.Any() {
		return false
	}
	op.duplicateOf, ok = f.options.IDs.Sequence(messageID(op.header))
	return ok
}

// duplicate answers a put of a message that was stored before.
func (f *Front) duplicate(out []byte, op *operation) []byte {
	if hasHeader(op.header, batchHeader) {
		// A batch that lacks it is not stored.
		return answer(out, op, refusal{
			Error:  apiError{badRequest, errDuplicateInBatch, "atomic publish batch contains duplicate message id"},
			Stream: f.options.Queue, Seq: new(uint64),
		})
	}
	if op.reply == nil {
		return out
	}
	body := append([]byte(nil), f.putAck...)
	body = append(body, `,"seq":`...)
	body = strconv.AppendUint(body, op.duplicateOf, 10)
	body = append(body, `,"duplicate":true}`...)
	out = append(out, "PUB "...)
	out = append(out, op.reply...)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, "\r\n"...)
	out = append(out, body...)
	return append(out, "\r\n"...)
}

// given returns what is to be remembered of a message that is given to a consumer.
func (f *Front) given(op *operation) (m ids.Message, ok bool) {
	if f.options.IDs == nil || op.kind != opMsg || op.header == nil || !bytes.HasPrefix(op.reply, []byte(ackPrefix)) {
		return m, false
	}
	if m.ID = messageID(op.header); len(m.ID) == 0 {
		return m, false
	}
	m.Sequence, m.Stored, ok = placeOf(op.reply)
	return m, ok
}

// What a subject for acknowledgements has, with dots between: $JS, ACK, in newer ones
// domain and account, stream, consumer, deliveries, sequence in the stream, that of the
// consumer, nanoseconds since 1970, pending messages, and in newer ones more.
const (
	ackTokens, newerAckTokens     = 9, 11
	sequenceToken, storedToken    = 5, 7
	newerTokens, ackTokensAtWorst = 2, 16
)

// placeOf reads from a subject for acknowledgements where a message is in the stream.
func placeOf(reply []byte) (sequence uint64, stored time.Time, ok bool) {
	var tokens [ackTokensAtWorst][]byte
	n := 0
	for token := range bytes.SplitSeq(reply, []byte(".")) {
		if n < len(tokens) {
			tokens[n] = token
		}
		n++
	}
	offset := 0
	switch {
	case n >= newerAckTokens:
		offset = newerTokens
	case n != ackTokens:
		return 0, time.Time{}, false
	}
	sequence, err := strconv.ParseUint(string(tokens[sequenceToken+offset]), 10, 64)
	if err != nil {
		return 0, time.Time{}, false
	}
	nanoseconds, err := strconv.ParseInt(string(tokens[storedToken+offset]), 10, 64)
	return sequence, time.Unix(0, nanoseconds), err == nil
}

// remember writes the ids of messages before they are given to the client.
func (c *conn) remember(messages []ids.Message) error {
	if len(messages) == 0 {
		return nil
	}
	if err := c.front.options.IDs.Given(messages); err != nil {
		c.front.options.Log.Error("Messages cannot be given", "error", err.Error())
		return fmt.Errorf("remember what is given: %w", err)
	}
	return nil
}

// unproved reports whether an operation confirms an acknowledgement that the store, which
// has failed, may not have written. The server ignores that it could not.
func (f *Front) unproved(op *operation) bool {
	return op.kind == opMsg && op.reply == nil && op.header == nil && len(op.payload) == 0 &&
		bytes.HasPrefix(op.subject, []byte(inboxPrefix)) &&
		f.options.Failed != nil && f.options.Failed() != nil
}
