// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/batch"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// publish stores messages at once or not at all, and returns the sequence of the last one. After an error it is not
// known which.
func publish(ctx context.Context, conn *nats.Conn, messages []*nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	sequence, err := batch.Publish(ctx, conn, messages)
	return sequence, whyNot(err)
}

// whyNot says what JetStream's refusal means for the sender.
func whyNot(err error) error {
	refusal, refused := batch.RefusalOf(err)
	if !refused {
		return err
	}
	switch refusal {
	case batch.Full:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the receiving queue takes no more messages now (%w): get messages from it, or raise its limits or storage; the "+
				"channel goes on by itself", err)
	case batch.Overtaken:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"something else moved the channel's position in the receiving queue (%w); the channel starts again", err)
	case batch.Busy:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"the receiving queue has as many batches open as it can (%w); the channel tries again later by itself", err)
	case batch.TooLarge:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"a message is longer than the receiving queue takes (%w): raise its limits.maxMessageSize", err)
	default:
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the receiving queue's stream does not take a batch: %w", err,
		)
	}
}
