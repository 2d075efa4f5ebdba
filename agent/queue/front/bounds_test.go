// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestManySubscriptions: a client that has as many as it may is told so, stays, and may have another in place of one.
func TestManySubscriptions(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	r := q.raw(t)
	r.hear("INFO {")
	r.say("CONNECT {\"verbose\":false}\r\nPING\r\n")
	r.hear("PONG")
	var all strings.Builder
	for i := range store.MaxSubscriptions {
		fmt.Fprintf(&all, "SUB _INBOX.somebody.%d %d\r\n", i, i)
	}
	r.say(all.String() + "PING\r\n")
	r.hear("PONG")
	r.say("SUB _INBOX.somebody.more more\r\nPING\r\n")
	r.hear("-ERR 'maximum subscriptions exceeded'")
	r.hear("PONG")
	r.say("UNSUB 7\r\nSUB orders.more more\r\nPUB orders.more 2\r\nhi\r\n")
	r.hear("MSG orders.more more 2")
}

// TestClientBatches: clients cannot have so many atomic batches open, or such long ones, that there is no space for the
// agent's.
func TestClientBatches(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	part := func(conn *nats.Conn, id string, sequence int, data []byte, commit bool) error {
		m := &nats.Msg{
			Subject: "orders.new", Data: data,
			Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(sequence)}},
		}
		if commit {
			m.Header.Set("Nats-Batch-Commit", "1")
		}
		reply, err := conn.RequestMsg(m, patience)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if len(reply.Data) > 0 {
			if err := json.Unmarshal(reply.Data, &answer); err != nil {
				t.Fatal(err)
			}
		}
		if answer.Error != nil {
			return answer.Error
		}
		return nil
	}
	later := func(what string, err error) {
		t.Helper()
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.Code != 503 || !strings.Contains(refused.Description, "again later") {
			t.Errorf("%s: %v", what, err)
		}
	}
	var conns [4]*nats.Conn
	for i := range conns {
		conns[i], _ = q.client()
	}
	begun := time.Now()
	var open [len(conns)]int
	for i, conn := range conns {
		var err error
		for ; open[i] < 50; open[i]++ {
			if err = part(conn, fmt.Sprint(i, "-", open[i]), 1, []byte("a"), false); err != nil {
				break
			}
		}
		if time.Since(begun) < 5*time.Second { // Batches of which no more was said for long enough would be closed.
			later("one batch more", err)
		}
	}
	if want := [len(conns)]int{16}; time.Since(begun) < 5*time.Second && open != want {
		t.Errorf("%v are open, want %v", open, want)
	}
	agent, err := q.store.Connect("agent")
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if _, err := batch.Publish(
		t.Context(), agent, []*nats.Msg{nats.NewMsg("orders.new"), nats.NewMsg("orders.new")},
	); err != nil {
		t.Errorf("the agent's own batch: %v", err)
	}
	if err := part(conns[0], "0-0", 2, []byte("b"), true); err != nil && time.Since(begun) < 5*time.Second {
		t.Errorf("the end of a batch: %v", err)
	}
	begun = time.Now()
	err = nil
	conn, sequence := conns[0], 1
	for data := make([]byte, maxMessage-1000); sequence < 20 && err == nil; sequence++ {
		// Only the first and the last one are answered.
		if sequence == 1 {
			err = part(conn, "long", sequence, data, false)
			continue
		}
		m := &nats.Msg{
			Subject: "orders.new", Data: data,
			Header: nats.Header{"Nats-Batch-Id": {"long"}, "Nats-Batch-Sequence": {strconv.Itoa(sequence)}},
		}
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	err = part(conn, "long", sequence, make([]byte, maxMessage-1000), true)
	if time.Since(begun) < 5*time.Second {
		later("a long batch", err)
	}
}

// TestQuota: of messages with ids no more are put than the server can remember, whatever is done with them; others are.
func TestQuota(t *testing.T) {
	t.Parallel()
	quota, err := ids.NewQuota(ids.QuotaOptions{Limit: 3, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	q := start(t, settings(t, nil), func(o *front.Options) { o.Quota = quota })
	_, js := q.client()
	for i, n := range []int{10, 12000, 70000} {
		q.put(js, &nats.Msg{Subject: "orders.new", Data: xml(t, n)}, jetstream.WithMsgID(strconv.Itoa(i)))
	}
	for _, n := range []int{10, 12000} {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.new", Data: xml(t, n)}, jetstream.WithMsgID("more"))
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.Code != 503 ||
			!strings.Contains(refused.Description, "shorten duplicateWindow") {
			t.Errorf("%d bytes with a fourth id: %v", n, err)
		}
		q.put(js, &nats.Msg{Subject: "orders.new", Data: xml(t, n)})
	}
	for deadline := time.Now().Add(patience); q.front.Statistics().RefusedPuts != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are counted as refused", q.front.Statistics().RefusedPuts)
		}
	}
	quota.SetWindow(0)
	for deadline := time.Now().Add(patience); quota.Full(); time.Sleep(time.Millisecond) {
		quota.Turn(5)
		if time.Now().After(deadline) {
			t.Fatal("nothing is forgotten")
		}
	}
	q.put(js, &nats.Msg{Subject: "orders.new", Data: []byte("x")}, jetstream.WithMsgID("more"))
}
