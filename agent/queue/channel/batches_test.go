// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestLargeBatches sends the largest batches to a member of a queue, and to a server that takes 1,000 messages at
// once as JetStream does by default, which gets smaller ones after the first that it rejects.
func TestLargeBatches(t *testing.T) {
	const count = 2 * channel.MaxBatchMessages
	for name, test := range map[string]struct{ limit, least, most int }{
		"member": {store.MaxAtomicBatch, count / channel.MaxBatchMessages, 4},
		"other":  {1000, (count + 999) / 1000, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			east := newQueue(t, "orders", nil)
			west, err := openQueueOf("orders", t.TempDir(), "", test.limit, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(west.close)
			for i := range count {
				if err := east.conn.Publish("orders", fmt.Appendf(nil, "message %d", i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := east.conn.Flush(); err != nil {
				t.Fatal(err)
			}
			receiver, n := newReceiver(t, west, channel.Acceptance{Any: true})
			options := senderOptions(east, n, codec.Zstd)
			options.BatchMessages, options.BatchDelay = channel.MaxBatchMessages, 2*time.Second
			send(t, options)
			got := west.waitFor(t, count)
			east.waitEmpty(t)
			if len(got) != count {
				t.Fatalf("%d messages arrived in place of %d", len(got), count)
			}
			for i, m := range got {
				if want := fmt.Sprintf("message %d", i); string(m.Data) != want {
					t.Fatalf("%q came in place of %q", m.Data, want)
				}
			}
			if b := int(receiver.Status()[0].GetBatches()); b < test.least || b > test.most {
				t.Errorf("%d messages came in %d batches, want %d to %d", count, b, test.least, test.most)
			}
		})
	}
}
