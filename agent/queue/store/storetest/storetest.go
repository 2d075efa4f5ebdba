// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest starts stores for tests.
package storetest

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// Elections bounds how long members may take to elect who leads.
const Elections = 2 * time.Minute

// Queue is the name of the queue, unless options say otherwise.
const Queue = "orders"

// Directory makes one for a store, which goes with the test. NATS waits 100 ms for what its consumers write while it
// ends; on a busy machine a file may appear later.
func Directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "store-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 50 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error(err)
	})
	return dir
}

// Start returns a store, which ends with the test. It is in a directory of its own, unless the options name one.
func Start(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	o.Queue = cmp.Or(o.Queue, Queue)
	if o.Directory == "" {
		o.Directory = Directory(t)
	}
	s, err := store.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// Connect returns a connection to a store, which ends with the test.
func Connect(t testing.TB, s *store.Store) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(Elections))
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// Open returns a store with the queue's stream in it.
func Open(t testing.TB, o store.Options, settings store.Settings) (*store.Store, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	s := Start(t, o)
	conn, js := Connect(t, s)
	if err := s.Ensure(t.Context(), conn, settings); err != nil {
		t.Fatal(err)
	}
	return s, conn, js
}

// Members returns the three members of a queue. Each is in a directory of its own.
func Members(t testing.TB, o store.Options, config *tls.Config) []*store.Store {
	t.Helper()
	var members []*store.Store
	known := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} // nobody is there, but a cluster of three expects three
	for i := range known {
		o.Member, o.Directory = fmt.Sprintf("orders-%d", i), t.TempDir()
		o.Cluster = &store.Cluster{ListenAddress: "127.0.0.1:0", Members: known, TLS: config}
		s := Start(t, o)
		if i == 0 {
			known = append([]string{s.RouteAddress().String()}, known[1:]...)
		}
		members = append(members, s)
	}
	return members
}
