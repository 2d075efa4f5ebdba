// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"strconv"

	"github.com/lighterage/lighterage/agent/queue/store"
)

const (
	consumerPrefix = "$JS.API.CONSUMER."
	infoPrefix     = consumerPrefix + "INFO."
	// deniedSubject is one that clients may not publish to, which the server tells them.
	deniedSubject = "$LIGHTERAGE.DENIED."
	// maxDenied bounds how much of a subject follows it, so that no line becomes too long.
	maxDenied = 512
)

const ownConsumers = "consumers whose names begin with " + store.OwnConsumers + " are the queue's own: clients may look at them and no more"

// repliesToServer reports whether the answer to an operation would be published to where
// the server itself listens, with the server's rights.
func repliesToServer(op *operation) bool { return len(op.reply) > 0 && op.reply[0] == '$' }

// denies reports whether an operation is one that the server would allow and no client may
// do: use a consumer of the agent's own, by which a channel or the service gets messages.
func (f *Front) denies(op *operation) bool {
	switch {
	case len(op.subject) == 0 || op.subject[0] != '$':
		return false
	case bytes.HasPrefix(op.subject, []byte(ackPrefix)):
		return f.acknowledgesOwn(op.subject[len(ackPrefix):])
	case bytes.HasPrefix(op.subject, []byte(infoPrefix)):
		return false
	case bytes.HasPrefix(op.subject, []byte(consumerPrefix)):
		// VERB.QUEUE.CONSUMER, and verbs are in upper case, which no queue's name is.
		_, consumer, _ := bytes.Cut(op.subject[len(consumerPrefix)-1:], []byte("."+f.options.Queue+"."))
		return bytes.HasPrefix(consumer, []byte(store.OwnConsumers))
	default:
		return false
	}
}

// acknowledgesOwn judges what follows $JS.ACK., which is QUEUE.CONSUMER and numbers, or
// DOMAIN.ACCOUNT before these.
func (f *Front) acknowledgesOwn(rest []byte) bool {
	if !bytes.Contains(rest, []byte("."+store.OwnConsumers)) {
		return false
	}
	tokens := bytes.SplitN(rest, []byte("."), 5)
	for _, i := range []int{1, 3} {
		if i < len(tokens) && string(tokens[i-1]) == f.options.Queue && bytes.HasPrefix(tokens[i], []byte(store.OwnConsumers)) {
			return true
		}
	}
	return false
}

// deny answers a request that a client may not make, in the form in which the client
// waits for the answer. What has none becomes one that the server refuses, and says so.
func (f *Front) deny(out []byte, op *operation) []byte {
	switch {
	case len(op.reply) == 0 || repliesToServer(op) || bytes.HasPrefix(op.subject, []byte(ackPrefix)):
		out = append(out, "PUB "+deniedSubject...)
		out = append(out, op.subject[:min(len(op.subject), maxDenied)]...)
		return append(out, " 0\r\n\r\n"...)
	case bytes.HasPrefix(op.subject, []byte(nextPrefix)):
		const status = "NATS/1.0 403 " + ownConsumers + "\r\n\r\n"
		out = append(out, "HPUB "...)
		out = append(out, op.reply...)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(len(status)), 10)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(len(status)), 10)
		return append(out, "\r\n"+status+"\r\n"...)
	default:
		return answer(out, op, refusal{Error: apiError{forbidden, errCode, ownConsumers}})
	}
}
