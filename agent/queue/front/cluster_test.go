// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

// several returns clients of the members of one queue, one of each.
func several(t *testing.T) []jetstream.JetStream {
	t.Helper()
	members := storetest.Members(t, store.Options{Capacity: 32 << 20}, nil)
	var clients []jetstream.JetStream
	for _, s := range members {
		conn, _ := storetest.Connect(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), storetest.Elections)
		err := s.Ensure(ctx, conn, store.Settings{Replicas: 3, MaxBytes: 16 << 20})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		_, js := serveFront(t, front.Options{Queue: "orders", Server: s, Settings: settings(t, nil)}).client()
		clients = append(clients, js)
	}
	return clients
}

// answered does something until the servers answer it, for which they may first have to elect who leads, and returns
// what they refuse.
func answered(t *testing.T, try func(context.Context) error) error {
	t.Helper()
	for deadline := time.Now().Add(storetest.Elections); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := try(ctx)
		cancel()
		var refused *jetstream.APIError
		if err == nil || errors.As(err, &refused) && refused.Code != 503 {
			return err
		}
		if time.Now().After(deadline) {
			t.Errorf("nobody answers: %v", err)
			return err
		}
	}
}

// TestFiltersOfSeveral: clients of several members make the same consumer at once, and it stays as it was made until it
// is deleted.
func TestFiltersOfSeveral(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	t.Parallel() // members mostly wait for each other
	clients := several(t)
	clerk := func(filter string) jetstream.ConsumerConfig {
		return jetstream.ConsumerConfig{Durable: "clerk", FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy}
	}
	made := make(chan error, len(clients))
	for _, js := range clients {
		go func() {
			made <- answered(t, func(ctx context.Context) error {
				_, err := js.CreateOrUpdateConsumer(ctx, "orders", clerk("orders.a"))
				return err
			})
		}()
	}
	for range clients {
		if err := <-made; err != nil {
			t.Fatalf("a consumer that others make, too: %v", err)
		}
	}
	changed := func() error {
		return answered(t, func(ctx context.Context) error {
			_, err := clients[1].CreateOrUpdateConsumer(ctx, "orders", clerk("orders.b"))
			return err
		})
	}
	var refused *jetstream.APIError
	if err := changed(); !errors.As(err, &refused) || refused.Code != 400 ||
		!strings.Contains(refused.Description, "create it again") {
		t.Fatalf("other filters: %v", err)
	}
	if err := answered(t, func(ctx context.Context) error {
		if err := clients[2].DeleteConsumer(ctx, "orders", "clerk"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		return nil // an answer was lost
	}); err != nil {
		t.Fatal(err)
	}
	if err := changed(); err != nil {
		t.Errorf("after it was deleted: %v", err)
	}
}
