// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pull_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/pull"
)

const longest = 1000

// consumer is one of a stream in a server of its own, with messages in it.
type consumer struct {
	*testing.T
	conn   *nats.Conn
	js     jetstream.JetStream
	inbox  *nats.Subscription
	puller *pull.Puller
}

func begin(t *testing.T, lengths ...int) *consumer {
	t.Helper()
	s, err := server.NewServer(
		&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	c := &consumer{T: t}
	if c.conn, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.conn.Close)
	if c.js, err = jetstream.New(c.conn); err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: "orders", Storage: jetstream.MemoryStorage},
	); err != nil {
		t.Fatal(err)
	}
	for _, n := range lengths {
		if _, err := c.js.Publish(t.Context(), "orders", make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		t.Fatal(err)
	}
	c.puller = pull.New(c.conn, "orders", "clerk")
	if c.inbox, err = c.conn.SubscribeSync(c.puller.Inbox()); err != nil {
		t.Fatal(err)
	}
	return c
}

// take takes what comes until it is a message or an error, or nothing more was asked for.
func (c *consumer) take() (*nats.MsgMetadata, error) {
	c.Helper()
	for c.puller.Asked() {
		m, err := c.inbox.NextMsgWithContext(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		if at, err := c.puller.Take(m); at != nil || err != nil {
			return at, err
		}
	}
	return nil, nil //nolint:nilnil // There is neither.
}

func (c *consumer) ask(batch, bytes int) {
	c.Helper()
	if err := c.puller.Ask(batch, bytes); err != nil {
		c.Fatal(err)
	}
}

// TestAll: requests that are too small for all messages bring all of them in the end, each once.
func TestAll(t *testing.T) {
	var lengths []int
	for i := range 50 {
		lengths = append(lengths, i*longest/50)
	}
	for _, batch := range []int{1, 7, 100} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			c := begin(t, lengths...)
			for next := uint64(1); next <= uint64(len(lengths)); {
				if !c.puller.Asked() {
					c.ask(batch, longest+200)
				}
				at, err := c.take()
				if err != nil {
					t.Fatal(err)
				}
				if at == nil {
					continue
				}
				if at.Sequence.Stream != next {
					t.Fatalf("message %d came where %d was expected", at.Sequence.Stream, next)
				}
				next++
			}
		})
	}
}

// TestLastByte: a request whose bytes are all delivered has ended, though messages were asked for that did not come.
func TestLastByte(t *testing.T) {
	c := begin(t, 1, 1, 1, 1)
	c.ask(1, longest)
	first, err := c.inbox.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at, err := c.puller.Take(first); at == nil || err != nil || c.puller.Asked() {
		t.Fatalf("%v, %v", at, err)
	}
	c.ask(3, first.Size()) // what was said of the first request changes nothing
	for range 2 {
		if at, err := c.take(); at == nil || err != nil {
			t.Fatalf("%v, %v", at, err)
		}
		if c.puller.Asked() {
			t.Fatal("it waits for more than the bytes that it asked for")
		}
		c.ask(3, first.Size())
	}
}

// TestTooLong: a message that fits into no request is an error, and not asked for without end.
func TestTooLong(t *testing.T) {
	c := begin(t, 10*longest)
	c.ask(5, longest)
	if at, err := c.take(); !errors.Is(err, pull.ErrConsumer) {
		t.Errorf("%v, %v", at, err)
	}
}

// TestEnded: a consumer that is deleted is said to have ended.
func TestEnded(t *testing.T) {
	c := begin(t)
	c.ask(5, longest)
	consumer, err := c.js.Consumer(t.Context(), "orders", "clerk")
	if err != nil {
		t.Fatal(err)
	}
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) { // who asks a consumer that is gone hears nothing
		now, err := consumer.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting = now.NumWaiting
	}
	if err := c.js.DeleteConsumer(t.Context(), "orders", "clerk"); err != nil {
		t.Fatal(err)
	}
	if at, err := c.take(); !errors.Is(err, pull.ErrConsumer) {
		t.Errorf("%v, %v", at, err)
	}
}

// TestHole: what was delivered to somebody else is missed.
func TestHole(t *testing.T) {
	c := begin(t, 1, 1)
	thief := pull.New(c.conn, "orders", "clerk")
	other, err := c.conn.SubscribeSync(thief.Inbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.Ask(1, longest); err != nil {
		t.Fatal(err)
	}
	if _, err := other.NextMsgWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.ask(1, longest)
	if at, err := c.take(); !errors.Is(err, pull.ErrConsumer) {
		t.Errorf("%v, %v", at, err)
	}
}

// FuzzTake: whatever comes is a message, says how a request is, or is an error.
func FuzzTake(f *testing.F) {
	for _, s := range [][3]string{
		{"", "$JS.ACK.orders.clerk.1.1.1.1700000000000000000.0", ""}, {"100", "", "Idle Heartbeat"},
		{"404", "", "No Messages"}, {"408", "", "Request Timeout"},
		{"409", "", "Batch Completed"}, {"409", "", "Message Size Exceeds MaxBytes"}, {"409", "", "Consumer Deleted"},
		{"", "$JS.ACK.", ""}, {"503", "", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, status, reply, description string) {
		m := &nats.Msg{Reply: reply, Sub: &nats.Subscription{}, Header: nats.Header{}}
		if status != "" {
			m.Header.Set("Status", status)
			m.Header.Set("Description", description)
		}
		p := pull.New(&nats.Conn{}, "orders", "clerk")
		if at, err := p.Take(m); at != nil && err != nil || p.Asked() {
			t.Errorf("%v, %v", at, err)
		}
	})
}
