// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// TestFanoutAmongMembers: three members take turns in sending to two queues, each from where the one before it was.
func TestFanoutAmongMembers(t *testing.T) {
	t.Parallel()
	authority := transporttest.NewAuthority(t, "east")
	config := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/orders", "")).MembersConfig()
	members := storetest.Members(t, store.Options{Capacity: 256 << 20, MaxPayload: 1 << 20}, config)
	f := newFan(t, "a", "b")
	names := []string{"a", "b"}
	var js jetstream.JetStream
	for i, s := range members {
		conn, own := storetest.Connect(t, s)
		if i == 0 {
			js = own
			if err := s.Ensure(t.Context(), conn, store.Settings{Replicas: 3}); err != nil {
				t.Fatal(err)
			}
		}
		fanout := channel.NewFanout(channel.FanoutOptions{
			Conn: conn, Stream: storetest.Queue, Leads: s.Leader, Names: names, Log: quiet,
			Backoff: channel.Backoff{First: 5 * time.Millisecond, Most: 50 * time.Millisecond},
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); fanout.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		for _, name := range names {
			o := senderOptions(&queue{conn: conn, name: storetest.Queue}, f.net[name], codec.Zstd)
			o.Leads, o.Fanout, o.Name = s.Leader, fanout, name
			send(t, o)
		}
	}
	// Who has just stopped leading may take a request with it.
	again := func(what string, do func(context.Context) error) {
		t.Helper()
		eventually(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return do(ctx) == nil
		})
	}
	for range 3 {
		for range 20 {
			text := fmt.Sprint(f.put)
			again("message "+text+" is put", func(ctx context.Context) error {
				_, err := js.Publish(ctx, storetest.Queue, []byte(text), jetstream.WithMsgID(text))
				return err
			})
			f.put++
		}
		again("the leader steps down", func(ctx context.Context) error {
			_, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+storetest.Queue, nil)
			return err
		})
	}
	f.has("a")
	f.has("b")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stream, err := js.Stream(ctx, storetest.Queue)
		if err != nil {
			t.Log(err)
			return
		}
		t.Logf("stream %+v", stream.CachedInfo())
		for consumer := range stream.ListConsumers(ctx).Info() {
			t.Logf("consumer %+v", consumer)
		}
	})
	// The server may keep what is acknowledged just when the leader changes until it next looks for such messages, two and
	// a half minutes later at most.
	within(t, 2*patience, "the sending queue is empty", func() bool {
		stream, err := js.Stream(t.Context(), storetest.Queue)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}
