// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/envelope"
)

// TestHotKey: more messages than there is room for, behind one of their key that somebody has, do not keep others from anybody; they come
// in their order, each when it is its turn, but for those that a limit of the queue has dropped meanwhile.
func TestHotKey(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	const hot, dropped, last = 5000, 100, 150
	for i := range hot {
		m := nats.NewMsg("orders")
		m.Data = strconv.AppendInt(nil, int64(i), 10)
		m.Header.Set(envelope.KeyHeader, "hot")
		if _, err := q.js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 {
			<-q.js.PublishAsyncComplete()
		}
	}
	q.put("cold", "other")
	in := q.expect(long, "0")
	q.expect(long, "other")
	stream, err := q.js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), dropped+1); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < last; i++ {
		if i == dropped {
			continue
		}
		q.results(q.hub.Acknowledge(t.Context(), in.receipts()), done)
		in = q.expect(long, strconv.Itoa(i))
	}
}
