// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/roles"
)

// access is what clients may do in the server: put messages, get and acknowledge them by
// consumers of the queue's stream, and look at it. The embedded server allows no more
// either; in one that others use too the connection of a client may do whatever the
// credentials of the queue allow, so that nothing but this keeps clients apart.
type access struct {
	queue string
	// shared says that others use the server, whose streams are not to be seen and what is
	// delivered to whom is not to be listened to.
	shared bool
}

const (
	apiPrefix      = "$JS.API."
	advisoryPrefix = "$JS.EVENT.ADVISORY."
	deliverPrefix  = "_DELIVER."
	inboxPrefix    = "_INBOX."

	listSubject  = apiPrefix + "STREAM.LIST"
	namesSubject = apiPrefix + "STREAM.NAMES"

	// leastInbox is how long the token is at least by which clients tell their inboxes from
	// others'. It is random: six letters and digits where nats.go waits for acknowledgements of
	// several puts at once, and 16 and more wherever else a client of NATS waits for something.
	leastInbox = 6
)

// ofQueue reports whether a subject is one of the queue's messages.
func (a *access) ofQueue(subject []byte) bool { return under(subject, a.queue) }

// under reports whether a subject is a name, or begins with it and a dot.
func under(subject []byte, name string) bool {
	return bytes.HasPrefix(subject, []byte(name)) && (len(subject) == len(name) || subject[len(name)] == '.')
}

// reply reports whether a client may ask for answers to a subject: the server publishes
// there with rights of its own. Where others' consumers deliver to, only who may consume.
func (a *access) reply(subject []byte, may roles.Operations) bool {
	return subject == nil || a.inbox(subject) && (!bytes.HasPrefix(subject, []byte(deliverPrefix)) ||
		may.Allow(roles.Consume))
}

// inbox reports whether a subject, or a pattern of some, is for what one client gets. Of
// inboxes one has to know the name, which nobody is told: what others get, and answers to
// the agent, cannot be listened to, nor can others be told that their puts are stored.
// Subjects for deliveries can, because a consumer that pushes says which is its.
func (a *access) inbox(subject []byte) bool {
	rest, ok := bytes.CutPrefix(subject, []byte(deliverPrefix))
	if ok {
		return !a.shared || under(rest, a.queue) && len(rest) > len(a.queue)
	}
	if rest, ok = bytes.CutPrefix(subject, []byte(inboxPrefix)); !ok {
		return false
	}
	name, _, _ := bytes.Cut(rest, []byte("."))
	return len(name) >= leastInbox && !bytes.ContainsAny(name, "*>")
}

// inboxes says which subjects inbox allows.
func (a *access) inboxes() string {
	deliver := deliverPrefix
	if a.shared {
		deliver += a.queue + "."
	}
	return "_INBOX.NAME.>, with a name of at least " + strconv.Itoa(leastInbox) + " characters that nobody knows, or " +
		deliver + ">"
}

// subscribe says what it is to listen to the subjects of a pattern.
func (a *access) subscribe(pattern []byte) roles.Request {
	switch {
	case a.ofQueue(pattern):
		return roles.Consume
	case a.inbox(pattern) && bytes.HasPrefix(pattern, []byte(deliverPrefix)):
		return roles.Consume
	case a.inbox(pattern):
		return roles.Answer
	case !bytes.HasPrefix(pattern, []byte(advisoryPrefix)):
		return roles.Unknown
	}
	// $JS.EVENT.ADVISORY.CONSUMER.CREATED.STREAM and so on.
	const streamToken = 5
	tokens := bytes.Split(pattern, []byte("."))
	if !a.shared || len(tokens) > streamToken && string(tokens[streamToken]) == a.queue {
		return roles.Browse
	}
	return roles.Unknown
}

// publish says what it is to publish to a subject. Inboxes are the server's to publish to: whoever could would tell
// others that their messages are stored.
func (a *access) publish(subject []byte) roles.Request {
	switch {
	case a.ofQueue(subject):
		return roles.Publish
	case bytes.HasPrefix(subject, []byte(ackPrefix)):
		if a.acknowledges(subject) {
			return roles.Settle
		}
	default:
		return roles.Published(a.queue, string(subject))
	}
	return roles.Unknown
}

// acknowledges reports whether a subject acknowledges a message of a client's consumer.
func (a *access) acknowledges(subject []byte) bool {
	// $JS.ACK.STREAM.CONSUMER and five numbers, or with domain and account before the stream,
	// and more after the numbers.
	const streamToken = 2
	tokens := bytes.Count(subject, []byte(".")) + 1
	skip := streamToken
	switch {
	case tokens >= newerAckTokens:
		skip += newerTokens
	case tokens != ackTokens:
		return false
	}
	rest := subject
	for range skip {
		_, rest, _ = bytes.Cut(rest, []byte("."))
	}
	stream, rest, _ := bytes.Cut(rest, []byte("."))
	return string(stream) == a.queue && !bytes.HasPrefix(rest, []byte(roles.OwnConsumers))
}

// forbidden tells the client, in the words of the server, that an operation is not for it.
func (c *conn) forbidden(op *operation) error {
	text := "Publish to"
	subject := op.subject
	switch {
	case op.kind == opSub:
		text = "Subscription to"
	case !c.front.access.reply(op.reply, c.client.Operations):
		text, subject = "Publish with Reply of", op.reply
	}
	c.front.counters.forbidden.Add(1)
	c.front.audit.Reject(audit.Forbidden, c.client.Name, natsProtocol, c.outer.RemoteAddr().String())
	c.front.options.Log.Debug(
		"Client may not", "client", c.client.Name, "remote", c.outer.RemoteAddr().String(), "what", text, "subject",
		string(subject),
	)
	_, err := (*toClient)(c).Write([]byte("-ERR 'Permissions Violation for " + text + " \"" + string(subject) + "\"'\r\n"))
	return err
}

// forbid answers such a request, so that the client does not wait for the server's answer.
func (c *conn) forbid(out []byte, op *operation) []byte {
	f := c.front
	if op.kind != opPub || !f.access.reply(op.reply, c.client.Operations) {
		return out
	}
	request := f.access.publish(op.subject)
	why := "a client of queue " + f.options.Queue + " may not ask for this"
	if request != roles.Unknown {
		why = "this client of queue " + f.options.Queue + " lacks the operation " + roles.Needed(request) +
			": give it a role with it in spec.authentication"
	}
	switch {
	case request == roles.Publish:
		return answer(out, op, refusal{Error: apiError{forbidden, errCode, why}, Stream: f.options.Queue, Seq: new(uint64)})
	case bytes.HasPrefix(op.subject, []byte(nextPrefix)):
		return refuseNext(out, op, why)
	case bytes.HasPrefix(op.subject, []byte(apiPrefix)):
		return answer(out, op, refusal{Error: apiError{forbidden, errCode, why}})
	}
	return out
}

// list appends a request for the streams that there are, which is answered with the queue's alone.
func (f *Front) list(out []byte, op *operation) []byte {
	wanted := make(map[string]json.RawMessage)
	if len(op.payload) > 0 && (len(op.payload) > maxRequest || json.Unmarshal(op.payload, &wanted) != nil) {
		return answer(out, op, refusal{Error: apiError{badRequest, errCode, "the request is no JSON object"}})
	}
	subject := f.options.Queue + ".>"
	for name, value := range wanted {
		if !strings.EqualFold(name, "subject") {
			continue
		}
		var asked string
		if json.Unmarshal(value, &asked) == nil && f.access.ofQueue([]byte(asked)) {
			subject = asked
		}
		delete(wanted, name)
	}
	wanted["subject"], _ = json.Marshal(subject) // a string always marshals
	body, err := json.Marshal(wanted)
	if err != nil {
		return answer(out, op, refusal{Error: apiError{badRequest, errCode, err.Error()}})
	}
	return request(out, op, body)
}
