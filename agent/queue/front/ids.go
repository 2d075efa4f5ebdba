// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/queue/ids"
)

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
