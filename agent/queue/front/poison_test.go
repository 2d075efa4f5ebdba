// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestPoison: a message that its consumer cannot bear is given as often as the consumer said, the same each time, and
// holds up nobody. One that the consumer gives up is gone.
func TestPoison(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	poison := xml(t, 12000)
	q.put(js, &nats.Msg{Subject: "orders.bad", Data: poison})
	q.put(js, &nats.Msg{Subject: "orders.worse", Data: xml(t, 3000)})
	q.put(js, &nats.Msg{Subject: "orders.good", Data: []byte("good")})
	const times = 3
	c, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", MaxDeliver: times, MaxAckPending: 1},
	)
	if err != nil {
		t.Fatal(err)
	}
	next := func() jetstream.Msg {
		t.Helper()
		m, err := c.Next(soon...)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for i := range times {
		m := next()
		meta, err := m.Metadata()
		if err != nil || meta.NumDelivered != uint64(i+1) || !bytes.Equal(m.Data(), poison) {
			t.Fatalf("delivery %d: %+v, %d bytes, %v", i+1, meta, len(m.Data()), err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	if m := next(); m.Subject() != "orders.worse" {
		t.Fatalf("after it came %s", m.Subject())
	} else if err := m.TermWithReason("it cannot be read"); err != nil {
		t.Fatal(err)
	}
	m := next()
	if m.Subject() != "orders.good" || string(m.Data()) != "good" {
		t.Fatalf("after it came %s", m.Subject())
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The poison is kept for whoever looks into it; what was given up and what was acknowledged is not.
	if kept := q.stored(1); kept.Subject != "orders.bad" {
		t.Errorf("the first message is %s", kept.Subject)
	}
	stream, err := q.direct.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []uint64{2, 3} {
		if _, err := stream.GetMsg(t.Context(), gone); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("message %d is there: %v", gone, err)
		}
	}
}

// TestNeverAcknowledged: a consumer that never acknowledges gets as much as it may have at once, and neither puts nor
// other consumers wait for it.
func TestNeverAcknowledged(t *testing.T) {
	t.Parallel()
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	const each, outstanding = 100, 10
	for i := range each {
		q.put(js, &nats.Msg{Subject: "orders.silent", Data: xml(t, 2000)})
		q.put(js, &nats.Msg{Subject: "orders.busy", Data: fmt.Append(nil, i)})
	}
	consumer := func(name string) jetstream.Consumer {
		t.Helper()
		c, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{
			Durable: name, FilterSubject: "orders." + name, MaxAckPending: outstanding, AckWait: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	silent, busy := consumer("silent"), consumer("busy")
	for range outstanding {
		if _, err := silent.Next(soon...); err != nil {
			t.Fatal(err)
		}
	}
	more, err := silent.FetchNoWait(1)
	if err != nil {
		t.Fatal(err)
	}
	for m := range more.Messages() {
		t.Errorf("it was given %s beyond what it may have", m.Reply())
	}
	for i := range each {
		m, err := busy.Next(soon...)
		if err != nil || string(m.Data()) != fmt.Sprint(i) {
			t.Fatalf("message %d: %v", i, err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	q.put(js, &nats.Msg{Subject: "orders.silent", Data: []byte("more")})
	// A consumer counts what comes a moment after it was stored.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, err := silent.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.NumAckPending == outstanding && info.NumPending == each+1-outstanding {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d unacknowledged, %d to come", info.NumAckPending, info.NumPending)
		}
	}
}
