// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
)

// hot puts messages of one key, with numbers from 0.
func (q *queue) hot(n int) {
	q.Helper()
	for i := range n {
		m := nats.NewMsg("orders")
		m.Data = strconv.AppendInt(nil, int64(i), 10)
		m.Header.Set(envelope.KeyHeader, "hot")
		if _, err := q.js.PublishMsgAsync(m); err != nil {
			q.Fatal(err)
		}
		if i%500 == 499 {
			<-q.js.PublishAsyncComplete()
		}
	}
	<-q.js.PublishAsyncComplete()
}

// TestWindowOfKey: what others put waits only while as many messages as a dispatcher holds are behind one of their key
// that somebody has.
func TestWindowOfKey(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.hot(dispatch.WindowMessages)
	q.put("cold", "other")
	in := q.expect(long, "0")
	if more := q.get(1, long, 0, false); len(more) > 0 {
		t.Fatalf("%v is given out beyond the window", more)
	}
	q.results(q.hub.Acknowledge(t.Context(), in.receipts()), done)
	q.expect(long, "1")
	q.expect(long, "other")
}

// TestHotKey: messages behind one of their key that somebody has do not keep others from anybody; they come in their
// order, each when it is its turn, but for those that a limit of the queue has dropped meanwhile.
func TestHotKey(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{MaxPayload: 20 << 10}})
	q.hub.SetBounds(128<<10, 64<<10, 32<<10, 0) // so that payloads are forgotten
	const dropped, last = 100, 150
	q.hot(dispatch.WindowMessages - 1)
	q.put("cold", "other")
	in := q.expect(long, "0")
	q.expect(long, "other")
	stream, err := q.js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), dropped+1); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < last; i++ {
		if i == dropped {
			continue
		}
		q.results(q.hub.Acknowledge(t.Context(), in.receipts()), done)
		in = q.expect(long, strconv.Itoa(i))
	}
}

// TestHotKeys: messages that clients keep, and those behind them, of many keys and together many times what a
// dispatcher may hold, keep others from nobody. What was forgotten of them is there when they come back, or become dead
// letters, and when it is their turn.
func TestHotKeys(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{MaxPayload: 20 << 10}})
	q.hub.SetBounds(128<<10, 64<<10, 32<<10, 0)
	const keys, each = 32, 8
	body := func(key string, i int) string { return fmt.Sprint(key, " ", i, " ", strings.Repeat("x", 10<<10)) }
	put := func(key, text string) {
		m := nats.NewMsg("orders")
		m.Data = []byte(text)
		if key != "" {
			m.Header.Set(envelope.KeyHeader, key)
		}
		if _, err := q.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range each {
		for k := range keys {
			put(fmt.Sprint("key", k), body(fmt.Sprint("key", k), i))
		}
	}
	put("", "other")
	next := make(map[string]int)
	var held got
	take := func() {
		t.Helper()
		more := q.get(dispatch.MaxBatch, long, soon, false)
		if len(more) == 0 {
			t.Fatalf("nothing comes any more; %d are held", len(held))
		}
		for _, m := range more {
			key, text := m.GetMessage().GetKey(), string(m.GetMessage().GetPayload())
			if want := body(key, next[key]); key != "" && text != want || key == "" && text != "other" {
				t.Fatalf("%.20q comes, want %.20q", text, want)
			}
			next[key]++
			held = append(held, m)
		}
	}
	for len(held) < keys+1 {
		take()
	}
	// The payload of most of them is forgotten by now.
	rejected, released := held[0], held[1]
	held = held[2:]
	q.results(q.hub.Reject(t.Context(), []string{rejected.GetReceipt()}, ""), done)
	q.expectFrom(true, long, string(rejected.GetMessage().GetPayload()))
	next[released.GetMessage().GetKey()]--
	q.results(q.hub.Release(t.Context(), []string{released.GetReceipt()}, 0), done)
	again := false
	for all := 1; all < keys*each+1; { // one is a dead letter
		take()
		for _, m := range held {
			again = again || m.GetSequence() == released.GetSequence() && m.GetDeliveries() == 2
		}
		all += len(held)
		for i, result := range q.hub.Acknowledge(t.Context(), held.receipts()) {
			if result != done {
				t.Fatalf("acknowledging %v: %v", held[i], result)
			}
		}
		held = nil
	}
	if !again {
		t.Error("what was given back did not come again")
	}
	q.await(0, 1)
}
