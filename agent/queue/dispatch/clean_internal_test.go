// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestCleanWaitsForNobody: while the server is asked for consumers that were left, others can ask for messages.
func TestCleanWaitsForNobody(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.WaitForShutdown)
	t.Cleanup(s.Shutdown)
	conn, err := nats.Connect("", nats.InProcessServer(s), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	h := New(Options{Conn: conn, Queue: "orders"})
	t.Cleanup(h.end)
	free := make(chan bool, 10)
	if _, err := conn.Subscribe("$JS.API.>", func(m *nats.Msg) {
		got := h.mu.TryLock()
		if got {
			h.mu.Unlock()
		}
		free <- got
		if err := m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"not now"}}`)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if h.clean(t.Context()) {
		t.Error("it takes it for done")
	}
	for first := true; first || len(free) > 0; first = false {
		select {
		case got := <-free:
			if !got {
				t.Error("the hub is locked while the server is asked")
			}
		case <-time.After(time.Minute):
			t.Fatal("the server was not asked")
		}
	}
}
