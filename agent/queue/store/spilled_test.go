// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestSpill: of more messages than fit into memory the oldest are swept. All come in order, those included that are got
// after the store was started again.
func TestSpill(t *testing.T) {
	const (
		messages = 240
		memory   = 5 << 20
	)
	o := store.Options{
		Directory: t.TempDir(), Capacity: 1 << 30, Spill: &store.Spill{Memory: memory, Volume: 2 << 30},
		Sync: store.Sync{Interval: store.SpillSyncInterval},
	}
	text := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 64<<10)) }
	first := start(t, o)
	conn, js := connect(t, first)
	ensure(t, first, conn, store.Settings{})
	consumer, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubjects: store.Subjects("orders")},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		put(t, js, "orders", text(i))
	}
	swept := first.Swept()
	for deadline := time.Now().Add(patience); swept.Bytes < messages<<16-2*memory; swept = first.Swept() {
		if time.Now().After(deadline) {
			t.Fatalf("of %d bytes it swept %+v", messages<<16, swept)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if swept.Sweeps == 0 || swept.Aborted != 0 || swept.InMemory > memory {
		t.Errorf("%+v", swept)
	}
	if got := statistics(t, first, conn); got.Used.MemoryBytes == 0 || got.Used.FileBytes < messages<<16 {
		t.Errorf("used: %+v", got.Used)
	}
	get := func(consumer jetstream.Consumer, i int) {
		t.Helper()
		m, err := consumer.Next(soon...)
		if err != nil || string(m.Data()) != text(i) {
			t.Fatalf("message %d: %v", i, err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages / 2 {
		get(consumer, i)
	}
	created := statistics(t, first, conn).Created.AsTime()
	first.ResetSwept()
	if swept := first.Swept(); swept.Sweeps != 0 || swept.Bytes != 0 {
		t.Errorf("after a reset: %+v", swept)
	}
	first.Shutdown()

	second := start(t, o)
	conn, js = connect(t, second)
	ensure(t, second, conn, store.Settings{})
	if got := statistics(t, second, conn); got.Messages != messages/2 || !got.Created.AsTime().Equal(created) {
		t.Errorf("after the restart: %+v", got)
	}
	if consumer, err = js.Consumer(t.Context(), "orders", "clerk"); err != nil {
		t.Fatal(err)
	}
	for i := messages / 2; i < messages; i++ {
		get(consumer, i)
	}
	if got := statistics(t, second, conn); got.Messages != 0 || second.Failed() != nil {
		t.Errorf("at the end: %+v, %v", got, second.Failed())
	}
}
