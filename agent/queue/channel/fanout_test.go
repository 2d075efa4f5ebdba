// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/scan"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// directly allows what senders of a Fanout need.
func directly(c *jetstream.StreamConfig) { c.AllowDirect = true }

// fan is a queue whose messages go to several.
type fan struct {
	*testing.T
	east *queue
	west map[string]*queue
	net  map[string]*network
	put  int
	stop []func() // of what sends
	// decoding of the sending queue; nil: it has no dictionaries.
	decoding *message.Decoding
}

func newFan(t *testing.T, names ...string) *fan {
	t.Helper()
	f := &fan{T: t, east: newQueue(t, "orders", directly), west: map[string]*queue{}, net: map[string]*network{}}
	for _, name := range names {
		f.west[name] = newQueue(t, "incoming", nil)
		_, f.net[name] = newReceiver(t, f.west[name], channel.Acceptance{Any: true})
	}
	return f
}

// send starts a sender to each of some queues, while all with a name are to have each message.
func (f *fan) send(names []string, running ...string) map[string]*channel.Sender {
	f.Helper()
	o := channel.FanoutOptions{
		Conn: f.east.conn, Stream: f.east.name, Names: names, Log: quiet,
		Backoff: channel.Backoff{First: 5 * time.Millisecond, Most: 50 * time.Millisecond},
	}
	fanout := channel.NewFanout(o)
	senders := map[string]*channel.Sender{}
	for _, name := range running {
		s := senderOptions(f.east, f.net[name], codec.Zstd)
		s.Fanout, s.Name = fanout, name
		if f.decoding != nil {
			s.Decoding = f.decoding
		}
		sender, stop := send(f.T, s)
		senders[name], f.stop = sender, append(f.stop, stop)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); fanout.Run(ctx) }()
	stop := func() { cancel(); <-done }
	f.Cleanup(stop)
	f.stop = append(f.stop, stop)
	return senders
}

// end stops all that sends.
func (f *fan) end() {
	for _, stop := range f.stop {
		stop()
	}
	f.stop = nil
}

// publish puts some messages that tell their number.
func (f *fan) publish(n int) {
	f.Helper()
	for range n {
		f.east.put(f.T, &nats.Msg{Subject: "orders.new", Data: fmt.Appendf(nil, "%d", f.put)})
		f.put++
	}
}

// has waits until a queue has what was put, all of it once and in its order.
func (f *fan) has(name string) {
	f.Helper()
	got := f.west[name].waitFor(f.T, f.put)
	if len(got) != f.put {
		f.Fatalf("%s has %d messages of %d", name, len(got), f.put)
	}
	for i, m := range got {
		if _, plain := opened(f.T, m); string(plain) != fmt.Sprint(i) {
			f.Fatalf("%s has %q as message %d", name, plain, i)
		}
	}
}

// holds is how many messages the sending queue has.
func (f *fan) holds() int {
	f.Helper()
	stream, err := f.east.js.Stream(f.Context(), f.east.name)
	if err != nil {
		f.Fatal(err)
	}
	return int(stream.CachedInfo().State.Msgs)
}

// TestFanout sends to one queue while another cannot be reached, restarts in between, and cuts connections.
func TestFanout(t *testing.T) {
	t.Parallel()
	f := newFan(t, "a", "b")
	both := []string{"a", "b"}
	f.net["b"].cut(true)
	senders := f.send(both, both...)
	f.publish(50)
	f.has("a")
	if n := f.holds(); n != 50 {
		t.Fatalf("%d messages are left while one queue has none", n)
	}
	// The receiver has a batch before the sender knows.
	eventually(t, "the sender is at the last message", func() bool { return senders["a"].Status().GetPosition() == 50 })
	f.end()
	f.publish(30)
	f.send(both, both...)
	f.has("a")
	f.net["b"].cut(false)
	for range 5 {
		f.publish(20)
		f.net["a"].cut(false) // breaks what is there
		f.net["b"].cut(false)
	}
	f.has("a")
	f.has("b")
	f.east.waitEmpty(t)
	f.end()

	// A queue that comes later has what is there then, and the others go on.
	f.publish(1)
	f.west["c"] = newQueue(t, "incoming", nil)
	_, f.net["c"] = newReceiver(t, f.west["c"], channel.Acceptance{})
	f.send([]string{"a", "b", "c"}, "a", "b", "c")
	f.has("a")
	f.has("b")
	if got := f.west["c"].waitFor(t, 1); len(got) != 1 || string(got[0].Data) != fmt.Sprint(f.put-1) {
		t.Errorf("the later queue has %d messages", len(got))
	}
	f.east.waitEmpty(t)
}

// Nothing leaves while it is not known how to reach one of the queues.
func TestFanoutWaitsForAll(t *testing.T) {
	t.Parallel()
	f := newFan(t, "a", "b")
	f.send([]string{"a", "b"}, "a")
	f.publish(25)
	f.has("a")
	if n := f.holds(); n != 25 {
		t.Fatalf("%d messages are left", n)
	}
	f.end()
	// The consumer that removes is recreated, and the first queue is known to have all.
	f.send([]string{"a"}, "a")
	f.east.waitEmpty(t)
	f.has("a")
}

// What no queue can receive becomes one dead letter, whichever sender comes to it first.
func TestFanoutBuries(t *testing.T) {
	t.Parallel()
	f := newFan(t, "a", "b")
	broken := stored(t, "orders.new", codec.Zstd, text(5000))
	broken.Header[message.ChecksumHeader] = []string{"0123456789abcdef"}
	f.east.put(t, broken)
	f.east.putRaw(t, &nats.Msg{
		Subject: "orders.new", Header: nats.Header{"no header\r\nCustomer": {"8"}}, Data: []byte("unreadable"),
	})
	f.publish(3)
	f.send([]string{"a", "b"}, "a", "b")
	f.has("a")
	f.has("b")
	eventually(t, "a dead letter of each is left", func() bool {
		stream, err := f.east.js.Stream(t.Context(), f.east.name)
		if err != nil {
			return false
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		return err == nil && len(info.State.Subjects) == 1 && info.State.Subjects[store.DeadSubject("orders")] == 2
	})
}

// What is asked for behind an unreadable message may be sound, when the former has gone meanwhile.
func TestAheadTellsUnreadable(t *testing.T) {
	t.Parallel()
	east := newQueue(t, "orders", directly)
	east.putRaw(t, &nats.Msg{
		Subject: "orders.new", Header: nats.Header{"no header\r\nCustomer": {"8"}}, Data: []byte("unreadable"),
	})
	east.put(t, &nats.Msg{Subject: "orders.new", Header: nats.Header{"Customer": {"9"}}, Data: []byte("sound")})
	east.put(t, &nats.Msg{Subject: "orders.new", Data: []byte("bare")})
	reader, err := scan.NewReader(east.conn, "orders")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for from, customer := range []string{"8", "9", ""} {
		m, err := reader.Ahead(t.Context(), uint64(from)+1)
		if err != nil || m.Unread != (from == 0) || m.Header.Get("Customer") != customer {
			t.Errorf("message %d: %+v, %v", from+1, m, err)
		}
	}
}

// With a consumer of clients nothing is sent, and the senders say why.
func TestFanoutBesideConsumers(t *testing.T) {
	t.Parallel()
	f := newFan(t, "a")
	other, err := f.east.js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{
		Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.publish(1)
	senders := f.send([]string{"a"}, "a")
	eventually(t, "the sender says who is in the way", func() bool {
		e := senders["a"].Status().GetLastError()
		return e.GetReason() == wirev1.FailureReason_FAILURE_REASON_SOURCE_IN_USE && strings.Contains(e.GetMessage(), "clerk")
	})
	if n := f.holds(); n != 1 {
		t.Fatalf("%d messages are left", n)
	}
	if err := f.east.js.DeleteConsumer(t.Context(), "orders", other.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	f.has("a")
	f.east.waitEmpty(t)
}

// A queue that lost its last messages sends what takes their sequences, to whoever had those and to whoever had not.
func TestFanoutAfterLoss(t *testing.T) {
	t.Parallel()
	f := newFan(t, "a", "b")
	both := []string{"a", "b"}
	directory, former := t.TempDir(), t.TempDir()
	open := func() {
		var err error
		if f.east, err = openQueue("orders", directory, "", directly); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.east.close)
	}
	open()
	f.publish(7)
	f.east.close()
	if err := os.CopyFS(former, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	open()
	f.publish(3)
	f.net["b"].cut(true)
	f.send(both, both...)
	f.has("a")
	f.end()
	f.east.close()
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(directory, os.DirFS(former)); err != nil {
		t.Fatal(err)
	}
	open()
	for i := range 5 {
		f.east.put(t, &nats.Msg{Subject: "orders.new", Data: fmt.Appendf(nil, "new %d", i)})
	}
	f.net["b"].cut(false)
	f.send(both, both...)
	for name, want := range map[string]int{"a": 15, "b": 12} {
		got := f.west[name].waitFor(t, want)
		if _, last := opened(t, got[len(got)-1]); len(got) != want || string(last) != "new 4" {
			t.Errorf("%s has %d messages, the last %q", name, len(got), last)
		}
	}
	f.east.waitEmpty(t)
}
