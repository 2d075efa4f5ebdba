// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestStuckClients: clients that ask for what they do not take are cut, and what was held for them is free again.
func TestStuckClients(t *testing.T) {
	t.Parallel()
	q := start(t, settings(t, nil), nil)
	q.front.SetSlow(3*time.Second, 1<<40)
	q.cutStuck(3)
}

// TestUntaken: before the server holds too much for all clients, those are cut that take least, however long one may
// take.
func TestUntaken(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	q.front.SetSlow(time.Hour, 4<<20)
	q.cutStuck(1)
}

// cutStuck has clients ask for all that is put and take nothing, and waits until they are cut.
func (q *queue) cutStuck(clients int) {
	q.Helper()
	for range clients {
		r := q.raw(q.T)
		r.hear("INFO {")
		r.say("CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB orders.> 1\r\nPING\r\n")
		r.hear("PONG")
	}
	data := make([]byte, maxMessage-1000)
	if _, err := rand.Read(data); err != nil {
		q.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	// More than the kernel holds for a connection, and no more than the server does.
	const most = 48
	for puts := 0; q.front.Statistics().Connections > 0; puts++ {
		if puts >= most {
			time.Sleep(time.Millisecond)
		} else if _, err := q.direct.PublishMsg(q.Context(), &nats.Msg{Subject: "orders.new", Data: data}); err != nil {
			q.Fatal(err)
		}
		if time.Now().After(deadline) {
			q.Fatalf(
				"%d clients that take nothing are connected, and the server holds %v", q.front.Statistics().Connections,
				q.store.Pending(),
			)
		}
	}
	for len(q.store.Pending()) > 0 {
		if time.Now().After(deadline) {
			q.Fatalf("the server holds %v", q.store.Pending())
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPending: the server tells what it holds for whom.
func TestPending(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	r := q.raw(t)
	r.hear("INFO {")
	r.say("CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB orders.> 1\r\nPING\r\n")
	r.hear("PONG")
	var pending []store.Pending
	data := make([]byte, maxMessage-1000)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); len(pending) == 0 ||
		pending[0].Bytes < maxMessage; pending = q.store.Pending() {
		if _, err := q.direct.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.new", Data: data}); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server holds %v", pending)
		}
	}
	if len(pending) != 1 || pending[0].Client == 0 {
		t.Errorf("%v", pending)
	}
}
