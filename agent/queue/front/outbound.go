// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// outbound is what the server says.
type outbound struct {
	*conn
	// What is passed on next: counts of it, and messages to remember.
	seen     counts
	messages []ids.Message
}

const (
	// maxServed is the longest message that the server can have.
	maxServed = message.MaxLength + maxHeader

	// What acknowledgements of puts look like.
	refusedPrefix  = `{"error":{`
	duplicateField = `"duplicate":`
	longestAck     = 1024
)

// judge implements direction.
func (o *outbound) judge(buf []byte, _ *generation, s *step) (need int, err error) {
	if need, err = s.read(buf, fromServer, maxServed); err != nil {
		return 0, fmt.Errorf("read what the store says: %w", err)
	}
	switch {
	case len(s.raw) == 0:
	case s.kind == opInfo:
		info, err := o.info(s.args, false)
		if err != nil {
			return 0, err
		}
		s.replaceWith(info)
	case s.kind == opMsg:
		o.message(s)
	}
	return need, nil
}

// message judges and counts a message.
func (o *outbound) message(s *step) {
	formed := s.header != nil && bytes.Contains(s.header, []byte(formPrefix))
	stored := o.acceptsStored || o.headers && formed && o.subscriptions.wantsStored(s.sid)
	o.subscriptions.delivered(s.sid)
	if formed {
		s.form, s.damage = message.ParseForm(s.header)
		stored = stored && s.form.Dictionary == 0 // Clients have no dictionaries.
	}
	o.count(&s.operation, formed && stored)
	if m, ok := o.front.given(&s.operation); ok {
		o.messages = append(o.messages, m)
	}
	switch {
	case o.front.unproved(&s.operation):
		s.replaceWith(nil)
	case s.header != nil && !stored && (formed || !o.headers):
		s.becomes(inflate, len(s.payload))
		if s.damage != nil {
			s.verdict = damaged
		} else if !s.form.Plain() {
			s.becomes(inflate, s.form.Length)
		}
	case bytes.HasPrefix(s.reply, []byte(inboxPrefix)):
		s.becomes(redact, len(s.raw))
	}
	if bytes.HasPrefix(s.reply, []byte(inboxPrefix)) {
		// It tells where another client listens for answers, as a message does that a client hears when it is published.
		// Who knows an inbox can listen to it.
		s.reply = nil
	}
}

// count counts a message for a client.
func (o *outbound) count(op *operation, stored bool) {
	ack := o.front.putAck
	switch {
	case bytes.HasPrefix(op.reply, []byte(ackPrefix)):
		o.seen[Gets]++
		if stored {
			o.seen[StoredGets]++
		}
	case len(op.payload) > longestAck:
	case bytes.HasPrefix(op.payload, ack):
		o.seen[Puts]++
		if bytes.Contains(op.payload, []byte(duplicateField)) {
			o.seen[Duplicates]++
		}
	case bytes.HasPrefix(op.payload, []byte(refusedPrefix)) && bytes.Contains(op.payload, ack[1:]):
		o.seen[RefusedPuts]++
	}
}

// commit implements direction: ids of messages are written before these are given to the client.
func (o *outbound) commit() error {
	if len(o.messages) > 0 {
		if err := o.front.options.IDs.Given(o.messages); err != nil {
			o.front.options.Log.Error("Messages cannot be given", "error", err.Error())
			return fmt.Errorf("remember what is given: %w", err)
		}
		clear(o.messages)
		o.messages = o.messages[:0]
	}
	if o.seen != (counts{}) {
		o.front.counters.add(o.seen)
		o.session.Count(o.seen[Puts], o.seen[Gets], 0)
		o.seen = counts{}
	}
	return nil
}
