// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// outbound is what the server says.
type outbound struct {
	conn *conn
}

// maxServed is the longest message that the server can have.
const maxServed = message.MaxLength + maxHeader

// scan implements direction.
func (o outbound) scan(buf []byte) (found part, err error) {
	c := o.conn
	var seen tally
	defer func() {
		c.front.counters.add(seen)
		c.session.Count(seen.puts, seen.gets, 0)
	}()
	messages := c.given[:0]
	defer func() {
		c.given = messages[:0]
		if failed := c.remember(messages); failed != nil {
			found, err = part{}, failed // Nothing of it is passed on.
		}
	}()
	for found.n < len(buf) {
		op, ok, need, err := next(buf[found.n:], fromServer, maxServed)
		if err != nil {
			return found, fmt.Errorf("read what the store says: %w", err)
		}
		if !ok {
			found.need = need
			break
		}
		work := o.work(&op)
		stored := c.acceptsStored || c.headers && work > 0 && c.subscriptions.wantsStored(op.sid)
		if stored && op.kind == opMsg {
			work = 0
		}
		if c.front.unproved(&op) || hidesReply(&op) {
			work = max(work, 1)
		}
		if work > 0 != (found.work > 0) && found.n > 0 || found.work > 0 && found.work+work > maxInflated {
			return found, nil
		}
		if op.kind == opMsg {
			c.subscriptions.delivered(op.sid)
			o.tally(&seen, &op, stored)
			if m, ok := c.front.given(&op); ok {
				messages = append(messages, m)
			}
		}
		found.n += len(op.raw)
		found.work += work
		if found.work >= batchWork {
			return found, nil
		}
	}
	return found, nil
}

// hidesReply reports whether a message would tell where another client listens for answers, as one does that
// a client hears when it is published. Who knows an inbox can listen to it.
func hidesReply(op *operation) bool {
	return op.kind == opMsg && bytes.HasPrefix(op.reply, []byte(inboxPrefix))
}

// maxInflated bounds what the messages of one part may be inflated to, in bytes; one is
// allowed in any case.
const maxInflated = 1 << 20

// work is how much there is to do for an operation that no subscription wants as it is.
func (o outbound) work(op *operation) int {
	switch {
	case op.kind == opInfo:
		return 1
	case op.kind != opMsg || op.header == nil:
		return 0
	case bytes.Contains(op.header, []byte(formPrefix)) && !o.conn.acceptsStored:
		form, err := message.ParseForm(op.header)
		if err != nil || form.Plain() {
			return 1
		}
		return max(form.Length, 1)
	case !o.conn.headers:
		return 1
	default:
		return 0
	}
}

// transform implements direction.
func (o outbound) transform(out, buf []byte) ([]byte, error) {
	f := o.conn.front
	w := worker{front: f, settings: f.settings.Load()}
	defer w.end()
	var err error
	meter.OnThread(func() {
		defer w.engine.Stop()
		for len(buf) > 0 && err == nil {
			op, ok, _, parsed := next(buf, fromServer, maxServed)
			if parsed != nil || !ok {
				err = parsed
				return
			}
			buf = buf[len(op.raw):]
			switch {
			case f.unproved(&op):
			case hidesReply(&op):
				op.reply = nil
				if o.work(&op) > 0 {
					out, err = w.plain(out, &op, o.conn.headers)
				} else {
					out = appendMessage(out, &op, op.header, op.payload, o.conn.headers)
				}
			case op.kind == opInfo:
				var info []byte
				if info, err = o.conn.info(op.args, false); err == nil {
					out = append(out, info...)
				}
			case o.work(&op) > 0:
				out, err = w.plain(out, &op, o.conn.headers)
			default:
				w.engine.Stop()
				out = append(out, op.raw...)
			}
		}
	})
	w.cpu(&f.decoded)
	return out, err
}

// What acknowledgements look like.
const (
	ackPrefix      = "$JS.ACK."
	refusedPrefix  = `{"error":{`
	duplicateField = `"duplicate":`
	longestAck     = 1024
)

// tally counts a message for a client.
func (o outbound) tally(seen *tally, op *operation, stored bool) {
	switch {
	case bytes.HasPrefix(op.reply, []byte(ackPrefix)):
		seen.gets++
		if stored && op.header != nil && bytes.Contains(op.header, []byte(formPrefix)) {
			seen.storedGets++
		}
	case len(op.payload) > longestAck:
	case bytes.HasPrefix(op.payload, o.conn.front.putAck):
		seen.puts++
		if bytes.Contains(op.payload, []byte(duplicateField)) {
			seen.duplicates++
		}
	case bytes.HasPrefix(op.payload, []byte(refusedPrefix)) && bytes.Contains(op.payload, o.conn.front.putAck[1:]):
		seen.refused++
	}
}
