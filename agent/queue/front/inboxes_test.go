// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestInboxes: clients of one queue cannot listen to what another is answered, or is delivered; what nats.go asks for
// they may.
func TestInboxes(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	denied := make(chan error, 10)
	spy, _ := q.client(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	for _, pattern := range []string{"_INBOX.>", "_INBOX.*", "_INBOX.*.*"} {
		if _, err := spy.SubscribeSync(pattern); err != nil {
			t.Fatal(err)
		}
		told(t, denied, pattern)
	}
	for name, options := range map[string][]nats.Option{"": nil, "in the old way": {nats.UseOldRequestStyle()}} {
		_, js := q.client(options...)
		var puts []jetstream.PubAckFuture
		for range 3 {
			put, err := js.PublishAsync("orders.new", xml(t, 12000))
			if err != nil {
				t.Fatal(err)
			}
			puts = append(puts, put)
		}
		for _, put := range puts {
			select {
			case <-put.Ok():
			case err := <-put.Err():
				t.Fatalf("several puts at once %s: %v", name, err)
			}
		}
		messages, err := q.consumer(js, "clerk").Fetch(len(puts), soon...)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for m := range messages.Messages() {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := messages.Error(); err != nil || n != len(puts) {
			t.Errorf("got %d of %d messages %s: %v", n, len(puts), name, err)
		}
	}
}
