// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/pull"
)

// TestUnheard: requests of a consumer that nobody hears yet are made again for some time, and once it was heard, or
// when the time is over, the consumer has ended.
func TestUnheard(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := server.NewServer(
		&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	connect := func() *nats.Conn {
		conn, err := nats.Connect("", nats.InProcessServer(s), nats.Timeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	js, err := jetstream.New(connect())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(
		ctx, jetstream.StreamConfig{Name: "orders", Storage: jetstream.MemoryStorage},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "orders", []byte("first")); err != nil {
		t.Fatal(err)
	}
	// Who has asked the server for nothing else is told for sure that nobody hears.
	r, err := newReader(connect(), "orders", "channel", 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r.settled = time.Now().Add(patience)
	type outcome struct {
		letter *letter
		err    error
	}
	came := make(chan outcome, 1)
	go func() {
		l, err := r.next(ctx)
		came <- outcome{l, err}
	}()
	for { // It has asked in vain more than once.
		unheard, err := r.subscription.Delivered()
		if err != nil {
			t.Fatal(err)
		}
		if unheard > 1 {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("nobody said that nobody hears")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := js.CreateConsumer(
		ctx, "orders", jetstream.ConsumerConfig{Durable: "channel", AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		t.Fatal(err)
	}
	first := <-came
	if first.err != nil || string(first.letter.payload) != "first" {
		t.Fatalf("%+v", first)
	}

	// The consumer is gone: its requests were heard before, and the time is not over.
	if err := js.DeleteConsumer(ctx, "orders", "channel"); err != nil {
		t.Fatal(err)
	}
	if l, err := r.next(ctx); !errors.Is(err, pull.ErrConsumer) {
		t.Errorf("of a consumer that was heard: %v, %v", l, err)
	}

	late, err := newReader(connect(), "orders", "channel", 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	late.settled = time.Now()
	if l, err := late.next(ctx); !errors.Is(err, pull.ErrConsumer) || !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("when the time is over: %v, %v", l, err)
	}
}
