// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import "strings"

// OwnConsumers is how the names of all consumers of the agent itself begin.
const OwnConsumers = "lighterage-"

// Tokens of rules that stand for others.
const (
	queueToken = "QUEUE"
	// anyToken is the name of a consumer, clientsToken that of one that is not the agent's own.
	anyToken, clientsToken = "ANY", "CLIENTS"
	// restToken is at least one more token.
	restToken = ">"
)

// rule says what it is to publish to a subject.
type rule struct {
	subject string
	request Request
}

// published is what clients may publish to, acknowledgements and messages that they answer to excepted. The subjects of
// the agent's own messages in the stream, whose first token begins with a dollar sign, are not among them, and no
// consumer that is named together with its filter sees others than the queue's; filters in the requests themselves are
// the front's matter. Consumers are not to be reset: that makes messages count as acknowledged that nobody was given.
var published = []rule{
	{"QUEUE", Publish},
	{"QUEUE.>", Publish},
	{"$JS.API.CONSUMER.MSG.NEXT.QUEUE.CLIENTS", Consume},
	{"$JS.FC.QUEUE.>", Consume},
	{"$JS.API.CONSUMER.CREATE.QUEUE", Consume},
	{"$JS.API.CONSUMER.CREATE.QUEUE.CLIENTS", Consume},
	{"$JS.API.CONSUMER.CREATE.QUEUE.CLIENTS.QUEUE", Consume},
	{"$JS.API.CONSUMER.CREATE.QUEUE.CLIENTS.QUEUE.>", Consume},
	{"$JS.API.CONSUMER.DURABLE.CREATE.QUEUE.CLIENTS", Consume},
	{"$JS.API.CONSUMER.DELETE.QUEUE.CLIENTS", Consume},
	{"$JS.API.CONSUMER.PAUSE.QUEUE.CLIENTS", Consume},
	{"$JS.API.CONSUMER.UNPIN.QUEUE.CLIENTS", Consume},
	{"$JS.API.CONSUMER.INFO.QUEUE.ANY", Browse},
	{"$JS.API.CONSUMER.NAMES.QUEUE", Browse},
	{"$JS.API.CONSUMER.LIST.QUEUE", Browse},
	{"$JS.API.INFO", Browse},
	{"$JS.API.STREAM.NAMES", Browse},
	{"$JS.API.STREAM.LIST", Browse},
	{"$JS.API.STREAM.INFO.QUEUE", Browse},
	{"$JS.API.STREAM.MSG.GET.QUEUE", Browse},
	{"$JS.API.DIRECT.GET.QUEUE", Browse},
	{"$JS.API.DIRECT.GET.QUEUE.QUEUE", Browse},
	{"$JS.API.DIRECT.GET.QUEUE.QUEUE.>", Browse},
}

// Published says what it is to publish to a subject, acknowledgements excepted. It allocates nothing.
func Published(queue, subject string) Request {
	for _, r := range published {
		if r.matches(queue, subject) {
			return r.request
		}
	}
	return Unknown
}

func (r rule) matches(queue, subject string) bool {
	wanted, more := r.subject, true
	for more {
		var want, have string
		want, wanted, more = strings.Cut(wanted, ".")
		if want == restToken {
			return subject != ""
		}
		var left bool
		if have, subject, left = strings.Cut(subject, "."); left != more {
			return false
		}
		switch want {
		case queueToken:
			want = queue
		case anyToken:
			want = have
		case clientsToken:
			if strings.HasPrefix(have, OwnConsumers) {
				return false
			}
			want = have
		}
		if have != want || have == "" {
			return false
		}
	}
	return true
}

// ServerPermissions are the subjects that a server allows the connections of clients. It cannot tell the agent's own
// consumers from others; nor does it know roles. The front, which does, answers requests that it rejects itself through
// a client's connection, so that this may publish to inboxes.
func ServerPermissions(queue string) (publish, subscribe []string) {
	publish = []string{"_INBOX.>", "$JS.ACK.>"}
	for _, r := range published {
		tokens := strings.Split(r.subject, ".")
		for i, token := range tokens {
			switch token {
			case queueToken:
				tokens[i] = queue
			case anyToken, clientsToken:
				tokens[i] = "*"
			}
		}
		publish = append(publish, strings.Join(tokens, "."))
	}
	return publish, []string{queue, queue + ".>", "_INBOX.>", "_DELIVER.>", "$JS.EVENT.ADVISORY.>"}
}
