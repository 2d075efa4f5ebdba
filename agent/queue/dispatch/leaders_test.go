// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// TestTwoLeaders: of two that think they lead each gives out only what the other does not,
// and order holds.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	hubs := []*dispatch.Hub{q.hub}
	q.newHub(config{})
	hubs = append(hubs, q.hub)
	const keys, each = 5, 20
	var mu sync.Mutex
	next := make(map[string]int)
	inHand := make(map[string]bool)
	for i := range each {
		for k := range keys {
			q.put(fmt.Sprint("key", k), fmt.Sprintf("key%d %d", k, i))
		}
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			hub := hubs[w%2]
			for {
				mu.Lock()
				total := 0
				for n := range maps.Values(next) {
					total += n
				}
				mu.Unlock()
				if total == keys*each {
					return
				}
				out, err := hub.Get(t.Context(), 3, long, 50*time.Millisecond, false)
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range out {
					key := m.GetMessage().GetKey()
					mu.Lock()
					if want := fmt.Sprintf("%s %d", key, next[key]); inHand[key] || string(m.GetMessage().GetPayload()) != want {
						t.Errorf("got %s, want %s; another of the key is in hand: %v", m.GetMessage().GetPayload(), want, inHand[key])
					}
					inHand[key] = true
					mu.Unlock()
				}
				for _, m := range out {
					key := m.GetMessage().GetKey()
					mu.Lock()
					inHand[key] = false
					next[key]++
					mu.Unlock()
					if r := hub.Acknowledge(t.Context(), []string{m.GetReceipt()}); r[0] != done {
						t.Errorf("acknowledge %s: %v", m.GetMessage().GetPayload(), r)
					}
				}
			}
		})
	}
	workers.Wait()
	q.await(0, 0)
}

// TestTakenByAnotherMember: the dispatcher of a member that thinks it leads too is no reader that a user would have to
// remove.
func TestTakenByAnotherMember(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Leads: func() bool { return false }}})
	q.consumer("lighterage-dead-before", store.DeadSubject("orders"))
	q.newHub(config{options: dispatch.Options{Patience: time.Nanosecond}})
	// those that were left are removed
	for deadline := time.Now().Add(soon); q.consumers() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the consumer that was left is still there")
		}
	}
	// One that is not removed by the dispatcher of the queue's messages is as one that was made just after.
	q.consumer("lighterage-dead-after", "orders.>")
	q.consumer("clerk", store.DeadSubject("orders"))
	if _, err := q.hub.Get(t.Context(), 1, long, 0, false); !errors.Is(err, dispatch.ErrUnavailable) ||
		errors.Is(err, dispatch.ErrTaken) {
		t.Errorf("beside another dispatcher: %v", err)
	}
	if err := q.js.DeleteConsumer(t.Context(), "orders", "lighterage-dead-after"); err != nil {
		t.Fatal(err)
	}
	q.consumer("teller", "orders")
	q.newHub(config{})
	if _, err := q.hub.Get(t.Context(), 1, long, 0, false); !errors.Is(err, dispatch.ErrTaken) {
		t.Errorf("beside another reader: %v", err)
	}
}

func (q *queue) consumer(name, filter string) {
	q.Helper()
	if _, err := q.js.CreateConsumer(
		q.Context(), "orders",
		jetstream.ConsumerConfig{Durable: name, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		q.Fatal(err)
	}
}

func (q *queue) consumers() int {
	q.Helper()
	s, err := q.js.Stream(q.Context(), "orders")
	if err != nil {
		q.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// TestGoneBeforeAcknowledged: what is not in the queue any more, and was in a client's hands when the leader changed,
// is nothing to ask again for.
func TestGoneBeforeAcknowledged(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Leads: func() bool { return false }}})
	stop := q.newHub(config{})
	q.put("x", "x1", "x2")
	first := q.expect(long, "x1")
	stop()
	s, err := q.js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	for sequence := range uint64(2) { // as by a limit of the queue
		if err := s.DeleteMsg(t.Context(), sequence+1); err != nil {
			t.Fatal(err)
		}
	}
	q.newHub(config{})
	q.results(q.hub.Acknowledge(t.Context(), first.receipts()), expired)
}

// record is one of who has which message, as far as the tests look at it.
type record struct {
	Departed []departure `json:"departed"`
}

type departure struct {
	Sequence uint64 `json:"s"`
	Put      int64  `json:"p"`
	Nonce    uint64 `json:"n"`
}

// departed is what is written when a message is acknowledged.
func departed(t *testing.T, m *messagesv1.ReceivedMessage) departure {
	receipt, err := base64.RawURLEncoding.DecodeString(m.GetReceipt())
	if err != nil {
		t.Fatal(err)
	}
	return departure{m.GetSequence(), m.GetPutTime().AsTime().UnixNano(), binary.BigEndian.Uint64(receipt[9:])}
}

// TestAcknowledgedBefore: what was acknowledged and is in the queue still, because whoever was to remove it was killed,
// is given to nobody, and removed. A message that was stored in its place is given.
func TestAcknowledgedBefore(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Leads: func() bool { return false }}})
	stop := q.newHub(config{})
	q.put("x", "x1", "x2")
	q.put("y", "y1")
	first := q.expect(long, "x1", "y1")
	stop()
	gone, other := departed(t, first[0]), departed(t, first[1])
	other.Put--
	data, err := json.Marshal(record{Departed: []departure{gone, other}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.js.Publish(t.Context(), store.LeaseSubject("orders", "messages"), data); err != nil {
		t.Fatal(err)
	}
	q.newHub(config{})
	var given got
	for len(given) < 2 {
		given = append(given, q.get(2, long, soon, false)...)
	}
	if texts := slices.Sorted(slices.Values(given.texts())); !slices.Equal(texts, []string{"x2", "y1"}) {
		t.Errorf("got %q", texts)
	}
	q.await(2, 0)
	q.results(q.hub.Acknowledge(t.Context(), first.receipts()[:1]), done)
	q.results(q.hub.Extend(t.Context(), first.receipts()[:1], long), expired)
}

// TestWrittenBeforeRemoved: an acknowledgement is in the log before JetStream hears of it, and one by a dispatcher that
// another has replaced reaches JetStream through the other.
func TestWrittenBeforeRemoved(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.put("", "a", "b")
	both := q.expect(long, "a", "b")
	seen := make(chan *nats.Msg, 100)
	for _, subject := range []string{store.LeaseSubject("orders", "messages"), "$JS.ACK.>"} {
		s, err := q.conn.ChanSubscribe(subject, seen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Unsubscribe() })
	}
	// next is what is written until an acknowledgement is seen.
	next := func() (written []departure) {
		for {
			select {
			case m := <-seen:
				var r record
				if strings.HasPrefix(m.Subject, "$JS.ACK.") {
					return written
				}
				if err := json.Unmarshal(m.Data, &r); err != nil {
					t.Fatal(err)
				}
				written = append(written, r.Departed...)
			case <-time.After(soon):
				t.Fatal("nothing was acknowledged")
			}
		}
	}
	q.results(q.hub.Acknowledge(t.Context(), both.receipts()[:1]), done)
	if got, want := next(), departed(t, both[0]); !slices.Contains(got, want) {
		t.Errorf("before the acknowledgement %+v was written, want %+v", got, want)
	}
	// Another writes: that one gives out from now on.
	if _, err := q.js.Publish(t.Context(), store.LeaseSubject("orders", "messages"), []byte(`{"leases":[]}`)); err != nil {
		t.Fatal(err)
	}
	q.results(q.hub.Acknowledge(t.Context(), both.receipts()[1:]), done)
	if got, want := next(), departed(t, both[1]); len(got) < 2 || got[0] != want || got[1] != want {
		t.Errorf("before the acknowledgement %+v was written, want %+v by both", got, want)
	}
	q.await(0, 0)
}

// TestFirstGet: who does not want to wait gets what is there, also from a dispatcher that has just begun.
func TestFirstGet(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Leads: func() bool { return false }}})
	options := dispatch.Options{Fill: long}
	stop := q.newHub(config{options: options})
	q.none() // and it is said at once
	stop()
	q.put("", "a")
	q.newHub(config{options: options})
	if out := q.get(10, long, 0, false); len(out) != 1 {
		t.Errorf("%v", out)
	}
	q.none()
}

// forgetful writes no ids once.
type forgetful struct {
	ids.Keeper
	failed atomic.Bool
}

func (f *forgetful) Given([]ids.Message) error {
	if f.failed.CompareAndSwap(false, true) {
		return errors.New("no space")
	}
	return nil
}

// TestGivenBack: what was written to be given out, and could not be, is given out to the next.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{IDs: &forgetful{}}})
	q.put("", "a")
	if m := q.expect(long, "a"); m[0].GetDeliveries() != 1 {
		t.Errorf("%v", m)
	}
}

// TestLateAnswer: what another member gives out for a client that has gone is given back to it, also before the hub of
// this one runs.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Leads: func() bool { return false }}})
	q.hub = dispatch.New(dispatch.Options{Conn: q.conn, Queue: "orders", Leads: func() bool {
		return false
	}, Patience: soon})
	defer func() { run(t, q.hub)() }() // so that what it began ends
	ctx, cancel := context.WithCancel(t.Context())
	back := make(chan *wirev1.QueueChange, 1)
	answer := func(m *nats.Msg, with proto.Message) {
		data, err := proto.Marshal(with)
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}
	const receipt = "AQAAAAAAAAABAAAAAAAAAAE" // of the first message
	gets, err := q.conn.Subscribe("$LIGHTERAGE.SERVICE.orders.get", func(m *nats.Msg) {
		cancel()
		answer(m, &messagesv1.GetResponse{Messages: []*messagesv1.ReceivedMessage{{Receipt: receipt}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gets.Unsubscribe() }()
	changes, err := q.conn.Subscribe("$LIGHTERAGE.SERVICE.orders.change", func(m *nats.Msg) {
		c := &wirev1.QueueChange{}
		if err := proto.Unmarshal(m.Data, c); err != nil {
			t.Error(err)
		}
		answer(m, &messagesv1.ReleaseResponse{Results: []messagesv1.ReceiptResult{done}})
		back <- c
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = changes.Unsubscribe() }()
	if out, err := q.hub.Get(ctx, 1, long, 0, false); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", out, err)
	}
	select {
	case c := <-back:
		if r := c.GetReceipts(); c.GetVerb() != 4 || len(r) != 1 || r[0] != receipt {
			t.Errorf("%v", c)
		}
	case <-time.After(soon):
		t.Error("nothing was given back")
	}
}
