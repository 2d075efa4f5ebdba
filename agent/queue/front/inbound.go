// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/roles"
)

// inbound is what a client says.
type inbound struct {
	conn *conn
}

// fate is what is done with an operation.
type fate uint8

const (
	pass   fate = iota
	count       // pass on, and count as a message that is stored as it is
	encode      // compress the payload
	verify      // has the form of package message already, or claims to
	refuse      // the headers ask for what clients may not do
	known       // was stored before the server was started
	filter      // makes a consumer
	narrow      // lists streams
	deny        // asks for something of the agent's own
	forbid      // is not for clients
)

const (
	nextPrefix    = "$JS.API.CONSUMER.MSG.NEXT."
	createPrefix  = "$JS.API.CONSUMER.CREATE."
	durablePrefix = "$JS.API.CONSUMER.DURABLE.CREATE."

	formPrefix   = "Lighterage-"
	rollupHeader = "Nats-Rollup"
	// traceHeader names where the server is to tell what becomes of a message.
	traceHeader = "Nats-Trace-Dest"
)

// AcceptHeader with the value "stored" in a request to a pull consumer asks for messages
// as they are stored.
const AcceptHeader = "Lighterage-Accept"

// judge says what is done with an operation. It depends on the operation and the settings,
// and on the time in that ids are forgotten.
func (in inbound) judge(op *operation, s *generation) fate {
	access, may := &in.conn.front.access, in.conn.client.Operations
	switch {
	case op.kind == opSub && !may.Allow(access.subscribe(op.subject)):
		return forbid
	case op.kind != opPub:
		return pass
	case !access.reply(op.reply, may) || op.header != nil && bytes.Contains(op.header, []byte(traceHeader)):
		return forbid
	}
	request := access.publish(op.subject)
	if request == roles.Publish && !may.Allow(request) {
		return forbid
	}
	if request == roles.Publish {
		switch {
		case in.conn.front.unfit(op) != "" || op.header != nil && notForClients(op.header) != "":
			return refuse
		case in.conn.front.known(op):
			return known
		case op.header != nil && bytes.Contains(op.header, []byte(formPrefix)):
			return verify
		}
		if _, skips := s.Encoding.Skips(len(op.payload)); skips {
			return count
		}
		return encode
	}
	switch {
	case may.Allow(roles.Consume) && in.conn.front.asksOwn(op):
		return deny
	case !may.Allow(request):
		return forbid
	case bytes.HasPrefix(op.subject, []byte(createPrefix)) || bytes.HasPrefix(op.subject, []byte(durablePrefix)):
		return filter
	case access.shared && (string(op.subject) == listSubject || string(op.subject) == namesSubject):
		return narrow
	}
	return pass
}

// scan implements direction.
func (in inbound) scan(buf []byte) (part, error) {
	c := in.conn
	s := c.front.settings.Load()
	var found part
	stored := run{meter: &c.front.encoded}
	defer stored.flush()
	for found.n < len(buf) {
		op, ok, need, err := next(buf[found.n:], fromClient, s.MaxMessageSize)
		if err != nil {
			return found, err
		}
		if !ok {
			found.need = need
			break
		}
		if op.kind == opConnect || op.kind == opInfo {
			return found, fmt.Errorf("%w: a second CONNECT", errProtocol)
		}
		work := 0
		fate := in.judge(&op, s)
		switch {
		case fate == encode || fate == verify:
			work = max(len(op.payload), 1)
		case fate == refuse || fate == known || fate == filter || fate == narrow || fate == deny || fate == forbid ||
			fate == count && found.work > 0:
			work = 1
		}
		if why := in.declines(&op, fate); why != "" {
			if found.n > 0 {
				return found, nil // and it is judged again
			}
			return part{n: len(op.raw), instead: in.decline(&op, why)}, nil
		}
		// What passes as it is does not wait for what does not, nor is it copied with it.
		if work > 0 != (found.work > 0) && found.n > 0 {
			return found, nil
		}
		if fate == forbid {
			if err := c.forbidden(&op); err != nil {
				return found, err
			}
		} else {
			c.note(&op)
			c.admit(&op, fate)
		}
		if fate == count && work == 0 {
			reason, _ := s.Encoding.Skips(len(op.payload))
			stored.add(reason, len(op.payload))
		}
		found.n += len(op.raw)
		found.work += work
		if found.work >= batchWork {
			return found, nil
		}
	}
	return found, nil
}

// note keeps what decides in which form the client gets messages.
func (c *conn) note(op *operation) {
	switch op.kind {
	case opSub:
		c.subscriptions.add(op.sid, op.subject)
	case opUnsub:
		c.subscriptions.remove(op.sid, op.max)
	case opPub:
		if op.header != nil && bytes.HasPrefix(op.subject, []byte(nextPrefix)) && acceptsStored(op.header) {
			c.subscriptions.storedFor(op.reply)
		}
		if bytes.HasPrefix(op.subject, []byte(ackPrefix)) && settles(op.payload) {
			c.session.Count(0, 0, 1)
		}
	}
}

// settles reports whether an acknowledgement says that a message is done with.
func settles(payload []byte) bool {
	return len(payload) == 0 || bytes.HasPrefix(payload, []byte("+ACK")) || bytes.HasPrefix(payload, []byte("+NXT")) ||
		bytes.HasPrefix(payload, []byte("+TERM"))
}

// batchWork is how many bytes one goroutine compresses or inflates at a time.
const batchWork = 96 << 10

// transform implements direction.
func (in inbound) transform(out, buf []byte) ([]byte, error) {
	f := in.conn.front
	s := f.settings.Load()
	w := worker{front: f, settings: s}
	defer w.end()
	var err error
	meter.OnThread(func() {
		defer w.engine.Stop()
		for len(buf) > 0 && err == nil {
			op, ok, _, parsed := next(buf, fromClient, message.MaxLength)
			if parsed != nil || !ok {
				err = parsed
				return
			}
			buf = buf[len(op.raw):]
			fate := in.judge(&op, s)
			if fate == encode {
				w.engine.Start()
			} else {
				w.engine.Stop()
			}
			switch fate {
			case pass:
				out = append(out, op.raw...)
			case count:
				reason, _ := s.Encoding.Skips(len(op.payload))
				w.stored.add(reason, len(op.payload))
				out = append(out, op.raw...)
			case encode:
				out, err = w.encode(out, &op)
			case verify:
				out, err = w.verify(out, &op)
			case refuse:
				out = f.refusePut(out, &op, cmp.Or(f.unfit(&op), notForClients(op.header)))
			case known:
				out = f.duplicate(out, &op)
			case filter:
				out = f.consumer(out, &op)
			case narrow:
				out = f.list(out, &op)
			case deny:
				out = f.deny(out, &op)
			case forbid:
				out = in.conn.forbid(out, &op)
			}
		}
	})
	w.cpu(&f.encoded)
	return out, err
}

// notForClients says why a message with such headers cannot be put; empty: it can.
func notForClients(header []byte) string {
	switch {
	case hasHeader(header, rollupHeader):
		return rollupHeader + " is not for clients of a queue"
	case bytes.HasPrefix(messageID(header), []byte(envelope.DeadIDPrefix)):
		return "ids that begin with " + envelope.DeadIDPrefix + " are those of dead letters: put the message with another " +
			nats.MsgIdHdr
	default:
		return ""
	}
}

// acceptsStored reports whether a request asks for messages as they are stored.
func acceptsStored(header []byte) bool {
	value, ok := headerValue(header, AcceptHeader)
	return ok && strings.EqualFold(string(value), "stored")
}

// hasHeader reports whether a block has a header of a name, in any case.
func hasHeader(block []byte, name string) bool {
	_, ok := headerValue(block, name)
	return ok
}

// headerValue returns the value of the first header of a name, in any case.
func headerValue(block []byte, name string) ([]byte, bool) {
	for len(block) > 0 {
		var line []byte
		line, block, _ = bytes.Cut(block, []byte("\n"))
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}

// hasHeaderOf reports whether a block has a header whose name begins so, in any case.
func hasHeaderOf(block []byte, prefix string) bool {
	for line := range bytes.SplitSeq(block, []byte("\n")) {
		if len(line) >= len(prefix) && strings.EqualFold(string(line[:len(prefix)]), prefix) {
			return true
		}
	}
	return false
}
