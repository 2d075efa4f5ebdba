// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/queue/external"
	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// inShared starts a queue in a server that others may use.
func inShared(t *testing.T, s *externaltest.Server, name string) *queue {
	t.Helper()
	e, err := external.New(
		external.Options{
			Egress: egress.Policy{Loopback: true}, Queue: name, Owner: "bank/" + name, Member: name + "-0",
			Servers: []string{s.URL()}, MaxMessage: 1 << 20,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := e.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, ensure := range []func(
		context.Context, *nats.Conn, store.Settings,
	) error{e.Ensure, e.EnsureLeases, e.EnsureIDs} {
		if err := ensure(ctx, conn, store.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	return serveFront(t, front.Options{Queue: name, Server: e, Settings: settings(t, nil)})
}

// TestShared: clients of a queue in a server that others use have all of JetStream for that queue, and neither see nor
// reach what else is there.
func TestShared(t *testing.T) {
	s := externaltest.Start(t, nil)
	q, other := inShared(t, s, "orders"), inShared(t, s, "bills")
	denied := make(chan error, 100)
	conn, js := q.client(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	_, others := other.client()

	plain := xml(t, 12000)
	for _, subject := range []string{"orders", "orders.new"} {
		if _, err := js.PublishMsg(
			t.Context(), &nats.Msg{Subject: subject, Data: plain, Header: nats.Header{jetstream.MsgIDHeader: {subject}}},
		); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := js.PublishMsg(
		t.Context(), &nats.Msg{Subject: "orders", Data: plain, Header: nats.Header{jetstream.MsgIDHeader: {"orders"}}},
	); err != nil || !again.Duplicate {
		t.Errorf("put again: %+v, %v", again, err)
	}
	if _, err := others.Publish(t.Context(), "bills.new", plain); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
	)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := consumer.Next(soon...)
		if err != nil || string(m.Data()) != string(plain) {
			t.Fatalf("%v", err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var refused *jetstream.APIError
	_, err = js.UpdateConsumer(
		t.Context(), "orders",
		jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "orders.new"},
	)
	if !errors.As(err, &refused) || refused.Code != 400 || !strings.Contains(refused.Description, "create it again") {
		t.Errorf("other filters for a consumer: %v", err)
	}
	if _, err := js.CreateOrUpdateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		t.Errorf("the same consumer again: %v", err)
	}
	// What was acknowledged is removed soon, not at once.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stream, err := js.Stream(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.Msgs == 0 && state.LastSeq == 2 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the stream is %+v", state)
		}
	}
	// It was stored compressed.
	if stored := q.front.Statistics(); stored.Compressions.Count != 3 || stored.Decompressions.Count != 2 ||
		stored.Puts.Count != 3 ||
		stored.Duplicates != 1 {
		t.Errorf("%+v", stored)
	}

	// Others' streams are neither listed nor reached.
	names := js.StreamNames(t.Context())
	var seen []string
	for name := range names.Name() {
		seen = append(seen, name)
	}
	if err := names.Err(); err != nil || len(seen) != 1 || seen[0] != "orders" {
		t.Errorf("streams are %v, %v", seen, err)
	}
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for subject, reply := range map[string]string{
		"bills.new": "", "$JS.API.STREAM.INFO.bills": inbox, "$JS.API.STREAM.DELETE.orders": inbox,
		"$JS.API.STREAM.CREATE.mine": inbox, "$JS.API.STREAM.PURGE.bills": inbox,
		"$JS.API.CONSUMER.CREATE.bills.x": inbox, "$JS.API.STREAM.MSG.GET.orders_leases": inbox,
		"$LIGHTERAGE.CHANNEL.orders.1": "", "$JS.ACK.bills.clerk.1.1.1.1.0": "",
		"$JS.API.STREAM.INFO.orders": "bills.new", "orders.new": "bills.new",
	} {
		if err := conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		told(t, denied, subject)
	}
	trace := &nats.Msg{Subject: "orders.new", Header: nats.Header{"Nats-Trace-Dest": {"bills.new"}}}
	if err := conn.PublishMsg(trace); err != nil {
		t.Fatal(err)
	}
	told(t, denied, "a trace")
	for _, pattern := range []string{">", "_INBOX.>", "bills.>", "$JS.>", "_DELIVER.>", "$JS.EVENT.ADVISORY.>"} {
		if _, err := conn.SubscribeSync(pattern); err != nil {
			t.Fatal(err)
		}
		told(t, denied, pattern)
	}
	if _, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "thief", FilterSubject: "bills.>"},
	); err == nil {
		t.Error("a consumer of another's subjects")
	}
	request := `{"stream_name":"orders","config":{"durable_name":"thief","deliver_subject":"_INBOX.x","ack_policy":"explicit"}}`
	if answer, err := conn.Request(
		"$JS.API.CONSUMER.DURABLE.CREATE.orders.thief", []byte(request), patience,
	); err != nil || !strings.Contains(string(answer.Data), "_DELIVER.orders.") {
		t.Errorf("a consumer that delivers to anybody: %v, %v", answer, err)
	}
	if err := conn.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for n, _, _ := answers.Pending(); n > 0; n-- {
		if m, err := answers.NextMsg(patience); err != nil || !strings.Contains(string(m.Data), "may not ask for this") {
			t.Errorf("it was answered: %v, %v", m, err)
		}
	}
	bills, err := others.Stream(t.Context(), "bills")
	if err != nil || bills.CachedInfo().State.Msgs != 1 || bills.CachedInfo().State.Consumers != 0 {
		t.Errorf("the other queue is not as it was: %v", err)
	}
	// A push consumer works, too.
	deliver, err := conn.SubscribeSync("_DELIVER.orders.me")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "orders", "clerk"); err != nil {
		t.Fatal(err)
	}
	request = `{"stream_name":"orders","config":{"durable_name":"push","deliver_subject":"_DELIVER.orders.me","ack_policy":"explicit"}}`
	if answer, err := conn.Request("$JS.API.CONSUMER.DURABLE.CREATE.orders.push", []byte(request), patience); err != nil ||
		strings.Contains(string(answer.Data), `"error"`) {
		t.Fatalf("a consumer that pushes: %v, %v", answer, err)
	}
	if _, err := js.Publish(t.Context(), "orders.new", plain); err != nil {
		t.Fatal(err)
	}
	if m, err := deliver.NextMsg(patience); err != nil || string(m.Data) != string(plain) {
		t.Errorf("%v", err)
	}
}

// told waits for the client to be told that something is not for it.
func told(t *testing.T, denied <-chan error, what string) {
	t.Helper()
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(patience):
		t.Fatalf("nobody is told of %s", what)
	}
}

// TestServerGone: a client whose server ends is cut, and served by another connection when it comes again.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := externaltest.Start(t, nil)
	q := inShared(t, s, "orders")
	lost := make(chan struct{}, 10)
	_, js := q.client(nats.DisconnectErrHandler(func(*nats.Conn, error) {
		lost <- struct{}{}
	}), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	if _, err := js.Publish(t.Context(), "orders.new", xml(t, 12000)); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("the client does not notice")
	}
	s.Restart(nil)
	// What was said to a front that had no server for it yet is lost: a try is not waited for as long as all of them.
	deadline := time.Now().Add(patience)
	for bound := 2 * time.Second; ; bound *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		_, err := js.Publish(ctx, "orders.new", xml(t, 12000))
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if info, err := js.Stream(t.Context(), "orders"); err != nil || info.CachedInfo().State.Msgs < 2 {
		t.Errorf("%v", err)
	}
}
