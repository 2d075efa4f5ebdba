// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
)

// addresses are of this host, and free for now.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	var held []net.Listener // so that no two are the same
	// Connections begin at 127.0.0.1, so that none takes a port before a member does.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l.Addr().String())
		held = append(held, l)
	}
	for _, l := range held {
		_ = l.Close()
	}
	return all
}

// TestSharedIDs: what one member gives, the others know, also when all were started again; a full queue does not keep
// ids from being shared.
func TestSharedIDs(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	t.Parallel() // members mostly wait for each other
	const capacity = 1 << 20
	settings := store.Settings{Replicas: 3, MaxBytes: capacity}
	authority := transporttest.NewAuthority(t, "east")
	config := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/orders", "")).MembersConfig()
	known := addresses(t, 3)
	type member struct {
		*store.Store
		directory string
		shared    *ids.Shared
	}
	var members []*member
	begin := func(i int) {
		m := members[i]
		m.Store = start(t, store.Options{
			Member: fmt.Sprintf("orders-%d", i), Directory: m.directory, Capacity: capacity,
			Cluster: &store.Cluster{ListenAddress: known[i], Members: known, TLS: config},
		})
	}
	share := func(m *member, last uint64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), storetest.Elections)
		defer cancel()
		conn, _ := connect(t, m.Store)
		if err := m.EnsureIDs(ctx, conn, settings); err != nil {
			t.Fatal(err)
		}
		var err error
		m.shared, err = ids.Share(ctx, ids.SharedOptions{
			Conn: conn, Stream: store.IDStream("orders"), Subject: store.IDSubject("orders"), Window: time.Hour, Last: last,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.shared.Close() })
	}
	for i := range 3 {
		members = append(members, &member{directory: t.TempDir()})
		begin(i)
	}
	conn, js := connect(t, members[0].Store)
	ensure(t, members[0].Store, conn, settings)
	full := make([]byte, 100_000)
	for deadline := time.Now().Add(storetest.Elections); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // of a leader that lost an election nothing is heard
		_, err := js.Publish(ctx, "orders", full, jetstream.WithRetryAttempts(0))
		cancel()
		var refused *jetstream.APIError
		if errors.As(err, &refused) {
			t.Logf("the queue is full: %v", err)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the queue is not full: %v", err)
		}
	}
	for _, m := range members {
		share(m, 0)
	}
	given := []ids.Message{
		{ID: []byte("a"), Sequence: 1, Stored: time.Now()},
		{ID: []byte("b"), Sequence: 2, Stored: time.Now()},
		{ID: []byte("old"), Sequence: 3},
	}
	for deadline := time.Now().Add(storetest.Elections); ; {
		err := members[1].shared.Given(given)
		if err == nil {
			break
		}
		if time.Now().After(deadline) { // it gives up after ten seconds without a leader
			t.Fatal(err)
		}
	}
	expect := func(id string, want uint64) {
		t.Helper()
		for i, m := range members {
			deadline := time.Now().Add(storetest.Elections)
			for !m.shared.Any() && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if got, ok := m.shared.Sequence([]byte(id)); got != want || ok != (want != 0) {
				t.Errorf("to member %d %s is %d, %v; want %d", i, id, got, ok, want)
			}
		}
	}
	expect("a", 1)
	expect("b", 2)
	expect("old", 0)

	for i, m := range members { // one after the other, as when they are given another image
		_ = m.shared.Close()
		m.Shutdown()
		begin(i)
		share(m, 1) // The second was lost.
	}
	expect("a", 1)
	expect("b", 0)
	expect("c", 0)
	members[0].shared.SetWindow(time.Nanosecond)
	if _, ok := members[0].shared.Sequence([]byte("a")); ok {
		t.Error("it is known beyond the window")
	}
}
