// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"strconv"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

const (
	consumerPrefix = "$JS.API.CONSUMER."
	infoPrefix     = consumerPrefix + "INFO."
)

const ownConsumers = "consumers whose names begin with " + roles.OwnConsumers +
	" are the queue's own: clients may look at them and no more"

// asksOwn reports whether an operation is a request about a consumer of the agent's own, by
// which a channel or the service gets messages, that waits for an answer and is not whether
// there is one.
func (f *Front) asksOwn(op *operation) bool {
	if op.reply == nil || !bytes.HasPrefix(op.subject, []byte(consumerPrefix)) ||
		bytes.HasPrefix(op.subject, []byte(infoPrefix)) {
		return false
	}
	// VERB.QUEUE.CONSUMER, and verbs are in upper case, which no queue's name is.
	_, consumer, _ := bytes.Cut(op.subject[len(consumerPrefix)-1:], []byte("."+f.options.Queue+"."))
	return bytes.HasPrefix(consumer, []byte(roles.OwnConsumers))
}

// deny answers such a request in the form in which the client waits for the answer.
func (f *Front) deny(out []byte, op *operation) []byte {
	if !bytes.HasPrefix(op.subject, []byte(nextPrefix)) {
		return answer(out, op, refusal{Error: apiError{forbidden, errCode, ownConsumers}})
	}
	return refuseNext(out, op, ownConsumers)
}

// refuseNext answers a request for messages.
func refuseNext(out []byte, op *operation, why string) []byte {
	if op.reply == nil {
		return out
	}
	status := "NATS/1.0 403 " + why + "\r\n\r\n"
	out = append(out, "HPUB "...)
	out = append(out, op.reply...)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(status)), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(status)), 10)
	return append(out, "\r\n"+status+"\r\n"...)
}
