// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// maxWait is how long one call may wait for messages.
const maxWait = time.Minute

// GetOptions say what to get.
type GetOptions struct {
	// Max is how many messages, up to 256; 0: 1. There are fewer when they are long.
	Max int
	// Wait for the first message; 0: return what is there. A Queue from which nobody got messages for a while needs about
	// a second to find them.
	Wait time.Duration
	// Visibility is how long no other client gets the messages, from 1 s to 12 h; 0: spec.redelivery.visibilityTimeout of
	// the Queue.
	Visibility time.Duration
	// DeadLetters in place of the messages.
	DeadLetters bool
}

// Received is a message that was got.
type Received struct {
	Message
	// Sequence of the message in the Queue.
	Sequence uint64
	// PutTime by the clock of the Queue.
	PutTime time.Time
	// Deliveries of this message, this one included.
	Deliveries int
	// DeadLetter says why the message is one; nil: it is not.
	DeadLetter *messagesv1.DeadLetter
	// Damage says why the payload could not be read; it is as it is stored then. Empty: it could.
	Damage string

	receipt string
}

// Get takes messages. None and no error: there were none until the end of the wait. It is repeated when no member
// answers; the messages of an answer that is lost are delivered again after their visibility.
func (c *Client) Get(ctx context.Context, o GetOptions) ([]*Received, error) {
	if o.Max < 0 || o.Max > maxBatch {
		return nil, fmt.Errorf("get messages: max is %d: use 1 to %d", o.Max, maxBatch)
	}
	request := &messagesv1.GetRequest{MaxMessages: uint32(max(o.Max, 1)), DeadLetters: o.DeadLetters}
	if o.Visibility != 0 {
		request.VisibilityTimeout = durationpb.New(o.Visibility)
	}
	var got []*messagesv1.ReceivedMessage
	may := retryable{Client: c}
	for until := time.Now().Add(o.Wait); ; {
		wait := min(max(time.Until(until), 0), maxWait)
		request.Wait = durationpb.New(wait)
		err := c.repeat(ctx, wait, func(ctx context.Context) (bool, error) {
			response, err := c.service.Get(ctx, request)
			if err != nil {
				return may.again(ctx, err), c.failed("get messages", err)
			}
			if got = response.GetMessages(); len(got) > int(request.GetMaxMessages()) {
				return false, miscounted("get messages", len(got), int(request.GetMaxMessages()))
			}
			return false, nil
		})
		if err != nil {
			return nil, err
		}
		if len(got) > 0 || time.Until(until) <= 0 {
			break
		}
	}
	out := make([]*Received, len(got))
	for i, m := range got {
		q := m.GetMessage()
		out[i] = &Received{
			Message:  Message{ID: q.GetId(), Key: q.GetKey(), Headers: q.GetHeaders(), Payload: q.GetPayload()},
			Sequence: m.GetSequence(), PutTime: m.GetPutTime().AsTime(), Deliveries: int(m.GetDeliveries()),
			DeadLetter: m.GetDeadLetter(), Damage: m.GetDamage(), receipt: m.GetReceipt(),
		}
	}
	return out, nil
}
