// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/service"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/api/messages"
)

// TestClient: the published client puts, gets, consumes and settles at the service itself, by TLS.
func TestClient(t *testing.T) {
	t.Parallel()
	own, pool := transporttest.SelfSigned(t)
	q := start(t, store.Settings{}, func(f *front.Options, _ *service.Options) {
		f.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	})
	dial := func(token string) *messages.Client {
		c, err := messages.New(
			q.address, messages.WithToken(token), messages.WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	client := dial(token)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	const perKey, keys = 20, 5
	var in []messages.Message
	for i := range perKey {
		for k := range keys {
			in = append(in, messages.Message{
				ID: fmt.Sprintf("%d-%d", k, i), Key: fmt.Sprint(k), Headers: map[string]string{"Number": fmt.Sprint(i)},
				Payload: xml(2000),
			})
		}
	}
	for _, duplicate := range []bool{false, true} {
		stored, err := client.Put(ctx, in...)
		if err != nil || len(stored) != len(in) {
			t.Fatal(len(stored), err)
		}
		for i, s := range stored {
			if s.Sequence != uint64(i+1) || s.Duplicate != duplicate {
				t.Fatalf("message %d: %+v", i, s)
			}
		}
	}
	if _, err := client.Put(ctx, messages.Message{Payload: make([]byte, maxMessage+1)}); !errors.Is(err,
		messages.ErrInvalid) {
		t.Errorf("too long: %v", err)
	}

	// Handlers run at once, those of a key one after the other. One message fails once, one is rejected.
	var mu sync.Mutex
	seen := map[string][]string{}
	left := len(in)
	consuming, enough := context.WithCancel(ctx)
	err := client.Consume(consuming, messages.ConsumeOptions{
		Concurrency: 8, RedeliverAfter: -1, OnError: func(m *messages.Received, err error) {
			if m.ID != "1-3" {
				t.Errorf("message %s: %v", m.ID, err)
			}
		},
	}, func(_ context.Context, m *messages.Received) error {
		mu.Lock()
		defer mu.Unlock()
		if m.ID == "1-3" && m.Deliveries == 1 {
			return errors.New("once")
		}
		seen[m.Key] = append(seen[m.Key], m.Headers["Number"])
		if left--; left == 0 {
			enough()
		}
		if m.ID == "2-4" {
			return messages.Rejected("not this one")
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for k := range keys {
		got := seen[fmt.Sprint(k)]
		if len(got) != perKey {
			t.Errorf("key %d: %v", k, got)
		}
		for i, number := range got {
			if number != fmt.Sprint(i) {
				t.Errorf("key %d: %v", k, got)
				break
			}
		}
	}

	dead, err := client.Get(ctx, messages.GetOptions{Wait: time.Minute, DeadLetters: true})
	if err != nil || len(dead) != 1 || dead[0].ID != "2-4" || dead[0].DeadLetter.GetDetail() != "not this one" {
		t.Fatal(dead, err)
	}
	if err := client.Acknowledge(ctx, dead...); err != nil {
		t.Error(err)
	}
	if _, err := client.Put(ctx, messages.Message{Payload: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	last, err := client.Get(ctx, messages.GetOptions{Wait: time.Minute, Visibility: time.Hour})
	if err != nil || len(last) != 1 || string(last[0].Payload) != "last" || last[0].PutTime.IsZero() {
		t.Fatal(last, err)
	}
	if err := client.Extend(ctx, time.Hour, last...); err != nil {
		t.Error(err)
	}
	if err := client.Release(ctx, 0, last...); err != nil {
		t.Error(err)
	}
	if err := client.Acknowledge(ctx, last...); !errors.Is(err, messages.ErrExpired) {
		t.Errorf("a released message was acknowledged: %v", err)
	}
	if _, err := dial("wrong").Get(ctx, messages.GetOptions{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
}
