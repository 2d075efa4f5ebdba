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

// errDuplicateInBatch is what the server says of such a message.
const errDuplicateInBatch = 10201

// known returns the sequence of the message with an id if that was given before the server was started, which may not
// know it any more.
func (f *Front) known(id []byte) (sequence uint64, ok bool) {
	if len(id) == 0 || f.options.IDs == nil || !f.options.IDs.Any() {
		return 0, false
	}
	return f.options.IDs.Sequence(id)
}

// duplicate has a put of a message that was stored before answered.
func (f *Front) duplicate(s *step, sequence uint64) *rejection {
	if hasHeader(s.header, batchHeader) {
		// A batch that lacks it is not stored.
		return &rejection{
			code: badRequest, errCode: errDuplicateInBatch, why: "atomic publish batch contains duplicate message id",
		}
	}
	s.replaceWith(nil)
	if s.reply != nil {
		ack := fmt.Appendf(nil, `%s,"seq":%d,"duplicate":true}`, f.putAck, sequence)
		s.instead = appendPublish(nil, s.reply, nil, nil, ack)
	}
	return nil
}

// given returns what is to be remembered of a message that is given to a consumer.
func (f *Front) given(op *operation) (m ids.Message, ok bool) {
	if f.options.IDs == nil || op.header == nil {
		return m, false
	}
	if m.ID = exactHeader(op.header, idField); len(m.ID) == 0 {
		return m, false
	}
	m.Sequence, m.Stored, ok = placeOf(op.reply)
	return m, ok
}

// What a subject for acknowledgements has, with dots between: $JS, ACK, in newer ones
// domain and account, stream, consumer, deliveries, sequence in the stream, that of the
// consumer, nanoseconds since 1970, pending messages, and in newer ones more.
const (
	streamToken, consumerToken, sequenceToken, storedToken = 2, 3, 5, 7

	ackTokens, newerAckTokens = 9, 11
)

// ackTokensOf takes a subject for acknowledgements apart. Those that only newer ones have are left out.
func ackTokensOf(subject []byte) (tokens [ackTokens][]byte, ok bool) {
	newer := false
	switch n := bytes.Count(subject, []byte(".")) + 1; {
	case !bytes.HasPrefix(subject, []byte(ackPrefix)):
		return tokens, false
	case n >= newerAckTokens:
		newer = true
	case n != ackTokens:
		return tokens, false
	}
	for i := range tokens {
		if newer && i == streamToken {
			_, subject, _ = bytes.Cut(subject, []byte("."))
			_, subject, _ = bytes.Cut(subject, []byte("."))
		}
		tokens[i], subject, _ = bytes.Cut(subject, []byte("."))
	}
	return tokens, true
}

// placeOf reads from a subject for acknowledgements where a message is in the stream.
func placeOf(reply []byte) (sequence uint64, stored time.Time, ok bool) {
	tokens, ok := ackTokensOf(reply)
	if !ok {
		return 0, time.Time{}, false
	}
	sequence, err := strconv.ParseUint(string(tokens[sequenceToken]), 10, 64)
	if err != nil {
		return 0, time.Time{}, false
	}
	nanoseconds, err := strconv.ParseInt(string(tokens[storedToken]), 10, 64)
	return sequence, time.Unix(0, nanoseconds), err == nil
}

// unproved reports whether an operation confirms an acknowledgement that the store, which
// has failed, may not have written. The server ignores that it could not.
func (f *Front) unproved(op *operation) bool {
	return op.reply == nil && op.header == nil && len(op.payload) == 0 &&
		bytes.HasPrefix(op.subject, []byte(inboxPrefix)) &&
		f.options.Failed != nil && f.options.Failed() != nil
}
