// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// The headers of JetStream's atomic publishing.
const (
	batchIDHeader       = "Nats-Batch-Id"
	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

// Codes of JetStream's errors, which it never gives another meaning.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeAccountResources      jetstream.ErrorCode = 10002
	codeMemoryExceeded        jetstream.ErrorCode = 10028
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeWrongLastSequence     jetstream.ErrorCode = 10071
	codeWrongLastConstant     jetstream.ErrorCode = 10164
	codeTooLarge              jetstream.ErrorCode = 10054
)

// publish stores messages at once or not at all, and returns the sequence of the last one. After an error it is not known which.
func publish(ctx context.Context, conn *nats.Conn, messages []*nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	id := nuid.Next()
	for i, m := range messages {
		m.Header.Set(batchIDHeader, id)
		m.Header.Set(batchSequenceHeader, strconv.Itoa(i+1))
		last := i == len(messages)-1
		if last {
			m.Header.Set(batchCommitHeader, "1")
		}
		if i > 0 && !last {
			if err := conn.PublishMsg(m); err != nil {
				return 0, fmt.Errorf("publish a message: %w", err)
			}
			continue
		}
		answer, err := conn.RequestMsgWithContext(ctx, m) // The first one is answered, too: it tells why a batch cannot begin.
		if err != nil {
			return 0, fmt.Errorf("wait for the stream to store a batch: %w", err)
		}
		if len(answer.Data) == 0 && !last {
			continue
		}
		var ack struct {
			Sequence uint64              `json:"seq"`
			Error    *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return 0, fmt.Errorf("read the stream's answer: %w", err)
		}
		if ack.Error != nil {
			return 0, whyNot(ack.Error)
		}
		if !last {
			return 0, errors.New("the stream ended a batch before its end")
		}
		return ack.Sequence, nil
	}
	return 0, errors.New("a batch without messages")
}

// whyNot says what JetStream's refusal means for the sender.
func whyNot(err *jetstream.APIError) error {
	switch err.ErrorCode {
	case codeStoreFailed, codeInsufficientResources, codeAccountResources, codeMemoryExceeded, codeStorageExceeded:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the receiving queue takes no more messages now (%w): get messages from it, or raise its limits or storage; the channel goes on by itself", err)
	case codeWrongLastSequence, codeWrongLastConstant:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"something else moved the channel's position in the receiving queue (%w); the channel starts again", err)
	case codeTooLarge:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"a message is longer than the receiving queue takes (%w): raise its limits.maxMessageSize", err)
	default:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE, "the receiving queue's stream does not take a batch: %w", err)
	}
}
