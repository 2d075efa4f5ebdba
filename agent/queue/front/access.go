// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"
	"strconv"

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
	consumerPrefix = apiPrefix + "CONSUMER."
	infoPrefix     = consumerPrefix + "INFO."
	nextPrefix     = consumerPrefix + "MSG.NEXT."
	createPrefix   = consumerPrefix + "CREATE."
	durablePrefix  = consumerPrefix + "DURABLE.CREATE."
	listSubject    = apiPrefix + "STREAM.LIST"
	namesSubject   = apiPrefix + "STREAM.NAMES"

	ackPrefix      = "$JS.ACK."
	advisoryPrefix = "$JS.EVENT.ADVISORY."
	deliverPrefix  = "_DELIVER."
	inboxPrefix    = "_INBOX."

	// traceHeader names where the server is to tell what becomes of a message.
	traceHeader = "Nats-Trace-Dest"

	// leastInbox is how long the token is at least by which clients tell their inboxes from
	// others'. It is random: six letters and digits where nats.go waits for acknowledgements of
	// several puts at once, and 16 and more wherever else a client of NATS waits for something.
	leastInbox = 6
)

// AcceptHeader with the value "stored" in a request to a pull consumer asks for messages
// as they are stored.
const AcceptHeader = "Lighterage-Accept"

// inbound is what a client says.
type inbound struct {
	*conn
	stored run // of what is passed on next
}

// judge implements direction.
func (in *inbound) judge(buf []byte, g *generation, s *step) (need int, err error) {
	if need, err = s.read(buf, fromClient, g.MaxMessageSize); err != nil || len(s.raw) == 0 {
		return need, err
	}
	var no *rejection
	switch s.kind {
	case opConnect:
		return 0, fmt.Errorf("%w: a second CONNECT", errProtocol)
	case opSub:
		switch {
		case !in.client.Operations.Allow(in.front.access.subscribe(s.subject)):
			no = violation("Subscription to", s.subject)
		case !in.subscriptions.add(s.sid, s.subject):
			no = &rejection{complaint: tooManySubscriptions}
		}
	case opUnsub:
		in.subscriptions.remove(s.sid, s.max)
	case opPub:
		no = in.publish(g, s)
	}
	if no != nil {
		return 0, in.reject(s, no)
	}
	return 0, nil
}

// tooManySubscriptions is what the server says.
const tooManySubscriptions = "maximum subscriptions exceeded"

// publish judges a put, an acknowledgement or a request.
func (in *inbound) publish(g *generation, s *step) *rejection {
	a, may := &in.front.access, in.client.Operations
	request := a.publish(s.subject)
	switch {
	case !a.reply(s.reply, may):
		return violation("Publish with Reply of", s.reply)
	case s.header != nil && bytes.Contains(s.header, []byte(traceHeader)):
		return violation("Publish to", s.subject).because(traceHeader + " is not for clients of a queue")
	case !may.Allow(request):
		return a.forbidden(s, request, may)
	case request == roles.Publish:
		return in.put(g, s)
	case bytes.HasPrefix(s.subject, []byte(createPrefix)) || bytes.HasPrefix(s.subject, []byte(durablePrefix)):
		s.becomes(createConsumer, len(s.payload))
	case a.shared && (string(s.subject) == listSubject || string(s.subject) == namesSubject):
		s.becomes(listStreams, len(s.payload))
	case bytes.HasPrefix(s.subject, []byte(nextPrefix)):
		if acceptsStored(s.header) {
			in.subscriptions.storedFor(s.reply)
		}
	case request == roles.Settle && settles(s.payload):
		in.session.Count(0, 0, 1)
	}
	return nil
}

// commit implements direction.
func (in *inbound) commit() error {
	in.stored.flush()
	return nil
}

// forbidden says why a client may not ask for something.
func (a *access) forbidden(s *step, request roles.Request, may roles.Operations) *rejection {
	switch {
	case may.Allow(roles.Consume) && s.reply != nil && a.own(s.subject):
		return &rejection{code: forbidden, why: ownConsumers}
	case request != roles.Unknown:
		return violation("Publish to", s.subject).because("this client of queue " + a.queue + " lacks the operation " +
			roles.Needed(request) + ": give it a role with it in spec.authentication")
	default:
		return violation("Publish to", s.subject).because("a client of queue " + a.queue + " may not ask for this")
	}
}

const ownConsumers = "consumers whose names begin with " + roles.OwnConsumers +
	" are the queue's own: clients may look at them and no more"

// own reports whether a request is about a consumer of the agent's own, by which a channel or the service gets
// messages, and is not whether there is one.
func (a *access) own(subject []byte) bool {
	if !bytes.HasPrefix(subject, []byte(consumerPrefix)) || bytes.HasPrefix(subject, []byte(infoPrefix)) {
		return false
	}
	// VERB.QUEUE.CONSUMER, and verbs are in upper case, which no queue's name is.
	_, consumer, _ := bytes.Cut(subject[len(consumerPrefix)-1:], []byte("."+a.queue+"."))
	return bytes.HasPrefix(consumer, []byte(roles.OwnConsumers))
}

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
	case !bytes.HasPrefix(subject, []byte(ackPrefix)):
		return roles.Published(a.queue, string(subject))
	case a.acknowledges(subject):
		return roles.Settle
	default:
		return roles.Unknown
	}
}

// acknowledges reports whether a subject acknowledges a message of a client's consumer.
func (a *access) acknowledges(subject []byte) bool {
	tokens, ok := ackTokensOf(subject)
	return ok && string(tokens[streamToken]) == a.queue &&
		!bytes.HasPrefix(tokens[consumerToken], []byte(roles.OwnConsumers))
}

// settles reports whether an acknowledgement says that a message is done with.
func settles(payload []byte) bool {
	return len(payload) == 0 || bytes.HasPrefix(payload, []byte("+ACK")) || bytes.HasPrefix(payload, []byte("+NXT")) ||
		bytes.HasPrefix(payload, []byte("+TERM"))
}
