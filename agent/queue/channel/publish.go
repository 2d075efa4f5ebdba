// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
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
	var refused *jetstream.APIError
	switch {
	case !errors.As(err, &refused):
		return err
	case jetstreamerror.Full(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the receiving queue takes no more messages now (%w): get messages from it, or raise its limits or storage; the "+
				"channel goes on by itself", err)
	case jetstreamerror.Overtaken(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"something else moved the channel's position in the receiving queue (%w); the channel starts again", err)
	case jetstreamerror.Is(err, jetstreamerror.TooManyBatches):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"the receiving queue has as many batches open as it can (%w); the channel tries again later by itself", err)
	case jetstreamerror.Is(err, jetstreamerror.MessageTooLarge):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"a message is longer than the receiving queue takes (%w): raise its limits.maxMessageSize", err)
	default:
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the receiving queue's stream does not take a batch: %w", err,
		)
	}
}
