// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// What follows bounds what clients may have of what the server keeps in memory for them. It depends on what
// was admitted before, so that it is judged where operations are read, in their order and once.

// declines says why there is no space for an operation now; empty: there is.
func (in inbound) declines(op *operation, f fate) string {
	c := in.conn
	switch {
	case f == pass && op.kind == opSub && c.subscriptions.full():
		return tooManySubscriptions
	case f != count && f != encode && f != verify || op.header == nil:
		return ""
	}
	if why := c.front.batches.refuses(op, c); why != "" {
		return why
	}
	if c.front.options.Quota.Full() && len(messageID(op.header)) > 0 {
		return c.front.options.Quota.Refusal()
	}
	return ""
}

// decline returns what is passed on in place of an operation for which there is no space.
func (in inbound) decline(op *operation, why string) []byte {
	c := in.conn
	if op.kind == opSub {
		c.front.options.Log.Debug(
			"Client has too many subscriptions", "client", c.outer.RemoteAddr().String(), "limit", store.MaxSubscriptions,
		)
		// An error of the connection is one of reading, too.
		_, _ = (*toClient)(c).Write([]byte("-ERR '" + why + "'\r\n"))
		return []byte{}
	}
	if op.reply == nil {
		c.front.counters.refusedPuts.Add(1) // answers are counted when they come back
	}
	return answer(
		[]byte{}, op, refusal{Error: apiError{unavailable, errCode, why}, Stream: c.front.options.Queue, Seq: new(uint64)},
	)
}

// admit counts what was not declined.
func (c *conn) admit(op *operation, what fate) {
	if what != count && what != encode && what != verify || op.header == nil {
		return
	}
	f := c.front
	f.batches.note(op, c)
	if f.options.Quota != nil {
		if id := messageID(op.header); len(id) > 0 {
			f.options.Quota.Add(ids.Cost(id))
		}
	}
}

// batchID returns the id of the atomic batch that a message is part of, as the server reads it.
func batchID(header []byte) []byte {
	_, value, ok := bytes.Cut(header, []byte("\r\n"+batchHeader+":"))
	if !ok {
		return nil
	}
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	return bytes.TrimLeft(value, " ")
}

// tooManySubscriptions is what the server says.
const tooManySubscriptions = "maximum subscriptions exceeded"

// What follows says why a message of a batch is refused.
var (
	tooManyOwnBatches = fmt.Sprintf(
		"this connection has %d atomic batches open, which is the limit: commit them, or put the batch again later",
		maxOwnBatches,
	)
	tooSlowBatch = fmt.Sprintf(
		"the atomic batch was begun more than %v ago, which is the limit: use shorter batches, or put it again later, with "+
			"another id",
		longestBatch,
	)
	tooManyBatches = fmt.Sprintf(
		"clients of this member have %d atomic batches open, which is the limit: commit them, or put the batch again later",
		maxBatches,
	)
	tooLongBatches = fmt.Sprintf(
		"the atomic batches that clients of this member have open hold %d bytes, which is the limit: use shorter batches, "+
			"or put the batch again later",
		maxBatchBytes,
	)
)
