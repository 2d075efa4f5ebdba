// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/channel"
)

// TestLostTail: a sending queue loses its last messages, as in a power failure, after they were sent. What is put in
// their place is sent, whether there is more or less of it, and what the receiving queue has is not sent again.
func TestLostTail(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"less than was lost": 3, "more than was lost": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, former := t.TempDir(), t.TempDir()
			west := newQueue(t, "orders", nil)
			_, network := newReceiver(t, west, channel.Acceptance{Any: true})
			var want []string
			var east *queue
			open := func() {
				var err error
				if east, err = openQueue("orders", directory, "", nil); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(east.close)
			}
			put := func(round, count int) {
				for i := range count {
					want = append(want, fmt.Sprintf("%d/%d", round, i))
					east.put(t, &nats.Msg{Subject: "orders", Data: []byte(want[len(want)-1])})
				}
			}
			sendAll := func() {
				_, stop := send(t, senderOptions(east, network))
				east.waitEmpty(t)
				stop()
			}
			open()
			put(0, 5)
			east.close()
			if err := os.CopyFS(former, os.DirFS(directory)); err != nil {
				t.Fatal(err)
			}
			open()
			put(1, 5)
			sendAll()
			east.close()
			if err := os.RemoveAll(directory); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(directory, os.DirFS(former)); err != nil {
				t.Fatal(err)
			}
			open()
			put(2, after)
			sendAll()
			put(3, 3) // The next start has to know the new place.
			sendAll()
			var got []string
			for _, m := range west.waitFor(t, len(want)) {
				got = append(got, string(m.Data))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
