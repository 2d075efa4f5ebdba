// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/ids"
)

// TestSentIDs: the ids of messages that a channel has sent are known after a restart of their queue.
func TestSentIDs(t *testing.T) {
	t.Parallel()
	const count = 20
	east, west := newQueue(t, "orders", nil), newQueue(t, "incoming", nil)
	kept := ids.Options{Directory: t.TempDir(), Window: time.Hour, Last: count}
	log, err := ids.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		east.put(
			t, &nats.Msg{Subject: "orders", Header: nats.Header{"Nats-Msg-Id": {fmt.Sprint(i)}}, Data: []byte("message")},
		)
	}
	_, network := newReceiver(t, west, channel.Acceptance{Any: true})
	o := senderOptions(east, network, codec.Zstd)
	o.IDs = log
	_, stop := send(t, o)
	west.waitFor(t, count)
	east.waitEmpty(t)
	stop()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if log, err = ids.Open(kept); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if sequence, ok := log.Sequence(fmt.Append(nil, i)); !ok || sequence != uint64(i+1) {
			t.Errorf("message %d is %d, %v", i, sequence, ok)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
