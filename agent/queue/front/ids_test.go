// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// serve starts store, ids and front in a directory, and returns what ends them as they are.
func serve(t *testing.T, directory string, last uint64, s front.Settings) (jetstream.JetStream, *front.Front, func()) {
	t.Helper()
	kept, err := store.Start(t.Context(), store.Options{Queue: "orders", Directory: directory, MaxPayload: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := kept.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Ensure(t.Context(), conn, store.Settings{}); err != nil {
		t.Fatal(err)
	}
	log, err := ids.Open(ids.Options{Directory: filepath.Join(directory, "ids"), Window: time.Hour, Last: last})
	if err != nil {
		t.Fatal(err)
	}
	f, err := front.New(front.Options{Queue: "orders", Server: kept, Settings: s, IDs: log})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(listener) }()
	client, err := nats.Connect("nats://"+listener.Addr().String(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(client, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js, f, func() {
		client.Close()
		f.Close()
		if err := <-ended; !errors.Is(err, front.ErrClosed) {
			t.Error(err)
		}
		conn.Close()
		kept.Shutdown()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestIDsAfterRestart: a message that was put, got and acknowledged is not stored again after a restart, whatever it is
// like; one that was not got is known to the server.
func TestIDsAfterRestart(t *testing.T) {
	directory, s := t.TempDir(), settings(t, nil)
	js, _, end := serve(t, directory, 0, s)
	plain := xml(t, 12000)
	names := []string{"short", "compressed", "left"}
	put := func(js jetstream.JetStream, id string, header nats.Header) (*jetstream.PubAck, error) {
		m := &nats.Msg{Subject: "orders.new", Header: header, Data: plain}
		if id == "short" {
			m.Data = plain[:10]
		}
		return js.PublishMsg(t.Context(), m, jetstream.WithMsgID(id))
	}
	for i, id := range names {
		if ack, err := put(js, id, nats.Header{}); err != nil || ack.Duplicate || ack.Sequence != uint64(i+1) {
			t.Fatalf("%s: %+v, %v", id, ack, err)
		}
	}
	consumer, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := consumer.Next(soon...)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end()

	js, f, end := serve(t, directory, 3, s)
	defer end()
	for i, id := range names {
		if ack, err := put(js, id, nats.Header{}); err != nil || !ack.Duplicate || ack.Sequence != uint64(i+1) ||
			ack.Stream != "orders" {
			t.Errorf("%s once more: %+v, %v", id, ack, err)
		}
	}
	if got := f.Statistics(); got.Duplicates != uint64(len(names)) {
		t.Errorf("%d duplicates were counted", got.Duplicates)
	}
	// A client that puts several at once is told as the server would.
	var refused *jetstream.APIError
	if _, err := put(
		js, "short", nats.Header{"Nats-Batch-Id": {"1"}, "Nats-Batch-Sequence": {"1"}},
	); !errors.As(err, &refused) || refused.ErrorCode != 10201 {
		t.Errorf("in a batch: %v", err)
	}
	if ack, err := put(js, "new", nats.Header{message.CodecHeader + "-Not": {"x"}}); err != nil || ack.Duplicate ||
		ack.Sequence != 4 {
		t.Errorf("another: %+v, %v", ack, err)
	}
}

// TestIDsUnwritten: what cannot be remembered is not given.
func TestIDsUnwritten(t *testing.T) {
	t.Parallel()
	log, err := ids.Open(ids.Options{Directory: t.TempDir(), Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	q := start(t, settings(t, nil), func(o *front.Options) { o.IDs = log })
	_, js := q.client()
	q.put(js, &nats.Msg{Subject: "orders", Data: []byte("with an id")}, jetstream.WithMsgID("1"))
	c := q.consumer(js, "clerk")
	if m, err := c.Next(jetstream.FetchMaxWait(time.Second)); err == nil {
		t.Errorf("%s was given", m.Data())
	}
}

// TestUnprovedAcknowledgement: when the store could not write, nobody is told that an acknowledgement is stored.
func TestUnprovedAcknowledgement(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	q := start(t, settings(t, nil), func(o *front.Options) {
		o.Failed = func() error {
			if failed.Load() {
				return errors.New("the volume is full")
			}
			return nil
		}
	})
	for _, options := range [][]nats.Option{nil, {nats.Name("lighterage-accept=stored")}} {
		failed.Store(false)
		_, js := q.client(options...)
		q.put(js, &nats.Msg{Subject: "orders", Data: xml(t, 3000)})
		q.put(js, &nats.Msg{Subject: "orders", Data: nil})
		c := q.consumer(js, "clerk")
		m, err := c.Next(soon...)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed.Store(true)
		if m, err = c.Next(soon...); err != nil { // an empty one, which is no confirmation
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := m.DoubleAck(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it was confirmed: %v", err)
		}
		cancel()
	}
}
