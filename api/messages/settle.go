// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// What may become of a message that was got. [SettleError] wraps these.
var (
	// ErrExpired: the visibility ended. The message is with another client now, or will be, or was settled already.
	ErrExpired = errors.New("the message is no longer this client's")
	// ErrUnconfirmed: no answer came. The message is delivered again unless the Queue did what was asked.
	ErrUnconfirmed = errors.New("the queue did not confirm it")
	// ErrReceipt: the message did not come from this Queue by Get.
	ErrReceipt = errors.New("the message was not got from this queue")
)

// SettleError says which messages were not acknowledged, released, extended or rejected. All others of the call were.
type SettleError struct {
	doing  string
	Failed []Unsettled
}

// Unsettled is a message and why nothing was done about it: ErrExpired, ErrUnconfirmed or ErrReceipt.
type Unsettled struct {
	Message *Received
	Err     error
}

// Error implements error.
func (e *SettleError) Error() string {
	first := e.Failed[0]
	return fmt.Sprintf("%s: %d failed, the first is message %d: %v", e.doing, len(e.Failed), first.Message.Sequence,
		first.Err)
}

// Unwrap returns the reasons.
func (e *SettleError) Unwrap() []error {
	out := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		out[i] = f.Err
	}
	return out
}

// Acknowledge removes messages from the Queue.
func (c *Client) Acknowledge(ctx context.Context, messages ...*Received) error {
	return c.settle(ctx, "acknowledge messages", messages, func(ctx context.Context, receipts []string) (results, error) {
		return c.service.Acknowledge(ctx, &messagesv1.AcknowledgeRequest{Receipts: receipts})
	})
}

// Release gives messages back, to be delivered again after a delay of up to 12 h. When its answer is lost and it is
// repeated, what it did the first time counts as ErrExpired.
func (c *Client) Release(ctx context.Context, delay time.Duration, messages ...*Received) error {
	return c.settle(ctx, "release messages", messages, func(ctx context.Context, receipts []string) (results, error) {
		return c.service.Release(ctx, &messagesv1.ReleaseRequest{Receipts: receipts, Delay: durationpb.New(delay)})
	})
}

// Extend sets the visibility again, counted from now: from 1 s to 12 h; 0: that of the Queue.
func (c *Client) Extend(ctx context.Context, visibility time.Duration, messages ...*Received) error {
	var timeout *durationpb.Duration
	if visibility != 0 {
		timeout = durationpb.New(visibility)
	}
	return c.settle(ctx, "extend the visibility", messages, func(ctx context.Context, receipts []string) (results, error) {
		return c.service.Extend(ctx, &messagesv1.ExtendRequest{Receipts: receipts, VisibilityTimeout: timeout})
	})
}

// Reject makes dead letters of messages. They keep the detail, up to 256 printable characters. When its answer is lost
// and it is repeated, what it did the first time counts as ErrExpired.
func (c *Client) Reject(ctx context.Context, detail string, messages ...*Received) error {
	return c.settle(ctx, "reject messages", messages, func(ctx context.Context, receipts []string) (results, error) {
		return c.service.Reject(ctx, &messagesv1.RejectRequest{Receipts: receipts, Detail: detail})
	})
}

// results are what all these calls return.
type results interface {
	GetResults() []messagesv1.ReceiptResult
}

// settle makes calls of up to 256 receipts, and repeats each for what is not confirmed.
func (c *Client) settle(
	ctx context.Context, doing string, messages []*Received,
	call func(ctx context.Context, receipts []string) (results, error),
) error {
	failed := &SettleError{doing: doing}
	for len(messages) > 0 {
		waiting := messages[:min(len(messages), maxBatch)]
		messages = messages[len(waiting):]
		may := retryable{Client: c}
		err := c.repeat(ctx, 0, func(ctx context.Context) (bool, error) {
			receipts := make([]string, len(waiting))
			for i, m := range waiting {
				receipts[i] = m.receipt
			}
			response, err := call(ctx, receipts)
			if err != nil {
				return may.again(ctx, err), c.failed(doing, err)
			}
			answers := response.GetResults()
			if len(answers) != len(waiting) {
				return false, miscounted(doing, len(answers), len(waiting))
			}
			var unknown []*Received
			for i, m := range waiting {
				switch answers[i] {
				case messagesv1.ReceiptResult_RECEIPT_RESULT_DONE:
				case messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED:
					failed.Failed = append(failed.Failed, Unsettled{m, ErrExpired})
				case messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID:
					failed.Failed = append(failed.Failed, Unsettled{m, ErrReceipt})
				default:
					unknown = append(unknown, m)
				}
			}
			waiting = unknown
			return len(waiting) > 0, nil
		})
		for _, m := range waiting {
			why := ErrUnconfirmed
			if err != nil {
				why = fmt.Errorf("%w: %w", ErrUnconfirmed, err)
			}
			failed.Failed = append(failed.Failed, Unsettled{m, why})
		}
	}
	if len(failed.Failed) == 0 {
		return nil
	}
	return failed
}
