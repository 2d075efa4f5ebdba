// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

// patience bounds what takes moments, on a machine that does much else.
const patience = time.Minute

// soon waits for a message as long. Without heartbeats as rare the library gives up after ten seconds.
var soon = []jetstream.FetchOpt{jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience / 2)}

// start and connect are short names of what most tests begin with.
var start, connect = storetest.Start, storetest.Connect

func ensure(t *testing.T, s *store.Store, conn *nats.Conn, settings store.Settings) {
	t.Helper()
	if err := s.Ensure(t.Context(), conn, settings); err != nil {
		t.Fatal(err)
	}
}

func put(
	t *testing.T, js jetstream.JetStream, subject, text string, options ...jetstream.PublishOpt,
) *jetstream.PubAck {
	t.Helper()
	ack, err := js.Publish(t.Context(), subject, []byte(text), options...)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

func statistics(t *testing.T, s *store.Store, conn *nats.Conn) store.Statistics {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out, err := s.Statistics(t.Context(), conn)
		if err == nil {
			return out
		}
		if time.Now().After(deadline) { // it gives up after seconds, for which a machine may be stalled
			t.Fatal(err)
		}
	}
}

// TestOldest: what channels note and dead letters are no messages of the queue, however old they are.
func TestOldest(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t)})
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	put(t, js, "$LIGHTERAGE.CHANNEL.orders.0123456789abcdef", "position")
	put(t, js, store.DeadSubject("orders"), "dead")
	if got := statistics(t, s, conn); got.Messages != 0 || got.DeadLetters != 1 || got.OldestTime != nil {
		t.Errorf("without messages: %+v", got)
	}
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	put(t, js, "orders.new", "1")
	put(t, js, "orders", "2")
	for _, sequence := range []uint64{3, 4} {
		m, err := stream.GetMsg(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if got := statistics(t, s, conn); !got.OldestTime.AsTime().Equal(m.Time) {
			t.Errorf("the oldest is of %v, want that of message %d, %v", got.OldestTime, sequence, m.Time)
		}
		if err := stream.DeleteMsg(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestart: what was acknowledged is there after a restart, and what was got and acknowledged is not.
func TestRestart(t *testing.T) {
	directory := t.TempDir()
	first := start(t, store.Options{Directory: directory})
	conn, js := connect(t, first)
	ensure(t, first, conn, store.Settings{})
	for i := range 10 {
		if ack := put(t, js, "orders.new", fmt.Sprint(i), jetstream.WithMsgID(fmt.Sprint(i))); ack.Sequence != uint64(i+1) ||
			ack.Stream != "orders" {
			t.Errorf("message %d: %+v", i, ack)
		}
	}
	consumer, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubjects: store.Subjects("orders")},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m, err := consumer.Next(soon...)
		if err != nil || string(m.Data()) != fmt.Sprint(i) {
			t.Fatalf("message %d: %v", i, err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := statistics(t, first, conn)
	if got.Messages != 7 || got.FirstSequence != 4 || got.LastSequence != 10 || got.Consumers != 1 ||
		got.Used.FileBlocks == 0 || got.Used.FileBytes == 0 || got.Bytes == 0 || got.OldestTime == nil ||
		got.Leader != "orders" || got.Created == nil {
		t.Errorf("%+v", got)
	}
	created := got.Created.AsTime()
	first.Shutdown()

	second := start(t, store.Options{Directory: directory})
	conn, js = connect(t, second)
	ensure(t, second, conn, store.Settings{})
	if got := statistics(t, second, conn); got.Messages != 7 || got.LastSequence != 10 || got.Consumers != 1 ||
		!got.Created.AsTime().Equal(created) {
		t.Errorf("after the restart: %+v", got)
	}
	if ack := put(t, js, "orders.new", "9", jetstream.WithMsgID("9")); !ack.Duplicate {
		t.Errorf("the ids of messages are forgotten: %+v", ack)
	}
	consumer, err = js.Consumer(t.Context(), "orders", "clerk")
	if err != nil {
		t.Fatal(err)
	}
	for i := 3; i < 10; i++ {
		m, err := consumer.Next(soon...)
		if err != nil || string(m.Data()) != fmt.Sprint(i) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if got := statistics(t, second, conn); got.Unacknowledged != 7 {
		t.Errorf("in hand: %+v", got)
	}
	if err := second.Ready(); err != nil {
		t.Error(err)
	}
	if !second.Leader() {
		t.Error("a queue of one does not lead itself")
	}
}

// TestSettings: limits hold, and change while the store runs.
func TestSettings(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t), Memory: true})
	conn, js := connect(t, s)
	if err := s.Ready(); err == nil {
		t.Error("ready without a stream")
	}
	ensure(t, s, conn, store.Settings{MaxMessages: 2})
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	put(t, js, "orders", "1")
	put(t, js, "orders", "2")
	if _, err := js.Publish(t.Context(), "orders", nil); err == nil {
		t.Error("a full queue takes more")
	}
	ensure(t, s, conn, store.Settings{MaxMessages: 2, DropOldest: true, MaxAge: time.Minute, DuplicateWindow: time.Hour})
	put(t, js, "orders", "3")
	if got := statistics(t, s, conn); got.Messages != 2 || got.FirstSequence != 2 || got.Used.FileBlocks != 0 ||
		got.Used.MemoryBytes == 0 {
		t.Errorf("%+v", got)
	}
	ensure(t, s, conn, store.Settings{MaxMessages: 2, DropOldest: true, MaxAge: time.Minute, DuplicateWindow: time.Hour})

	var refused *store.StreamError
	err := s.Ensure(t.Context(), conn, store.Settings{Replicas: 3})
	if !errors.As(err, &refused) || !refused.Permanent {
		t.Errorf("what cannot be changed was changed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conn.Close()
	if err := s.Ensure(ctx, conn, store.Settings{}); !errors.As(err, &refused) || refused.Permanent {
		t.Errorf("without a server: %v", err)
	}
}

// credentials are those of a client.
func credentials(t *testing.T, s *store.Store) (user, password string) {
	t.Helper()
	connect := make(map[string]any)
	if err := s.Introduce(connect, ""); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(connect["user"]), fmt.Sprint(connect["pass"])
}

// TestClientRights: a client reaches its queue and nothing else.
func TestClientRights(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t)})
	conn, _ := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	user, password := credentials(t, s)
	denied := make(chan error, 100)
	client, err := nats.Connect("", nats.InProcessServer(inProcess{s}), nats.UserInfo(user, password),
		nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, subject := range []string{
		"orders2", "other", "$JS.API.STREAM.DELETE.orders", "$JS.API.STREAM.UPDATE.orders", "$JS.API.STREAM.CREATE.other",
		"$JS.API.STREAM.PURGE.orders", "$JS.API.CONSUMER.RESET.orders.clerk",
		"$JS.API.STREAM.SNAPSHOT.orders", "$JS.API.STREAM.MSG.DELETE.orders", "$JS.API.STREAM.RESTORE.orders",
		"$JS.API.SERVER.REMOVE",
		"$LIGHTERAGE.CHANNEL.orders.0011223344556677", "$JS.API.CONSUMER.CREATE.orders.me.$LIGHTERAGE.>",
		"$JS.API.CONSUMER.CREATE.orders.me.>", "$SYS.REQ.SERVER.PING",
	} {
		if err := client.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := client.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for _, subject := range []string{">", "$LIGHTERAGE.>", "$JS.API.>", "$SYS.>", "*"} {
		if _, err := client.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := client.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// TestPasswords: a connection within the process needs one.
func TestPasswords(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t)})
	user, password := credentials(t, s)
	for say, want := range map[string]string{
		"CONNECT {}\r\n": "-ERR 'Authorization Violation'",
		fmt.Sprintf("CONNECT {\"user\":%q,\"pass\":\"guess\"}\r\n", user):     "-ERR 'Authorization Violation'",
		fmt.Sprintf("CONNECT {\"user\":\"agent\",\"pass\":%q}\r\n", password): "-ERR 'Authorization Violation'",
		fmt.Sprintf("CONNECT {\"user\":%q,\"pass\":%q}\r\n", user, password):  "+OK",
	} {
		conn, err := s.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		from := bufio.NewReader(conn)
		if _, err := from.ReadString('\n'); err != nil { // INFO
			t.Fatal(err)
		}
		go conn.Write([]byte(say + "PING\r\n")) // the server may answer before it has read all
		line, err := from.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%q: %q, %v; want %q", say, line, err, want)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	for _, name := range []string{"", "Orders", "or.ders", "or*ders", ">", "$JS", "or ders", strings.Repeat("o", 64)} {
		if _, err := store.Start(t.Context(), store.Options{Queue: name, Directory: storetest.Directory(t)}); err == nil ||
			!strings.Contains(err.Error(), "use up to 63") {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := store.Start(t.Context(), store.Options{Queue: "orders", Directory: "/dev/null/volume"}); err == nil ||
		!strings.Contains(err.Error(), "/dev/null/volume") {
		t.Errorf("a directory that cannot be: %v", err)
	}
	if _, err := store.Start(
		t.Context(),
		store.Options{Queue: "orders", Directory: storetest.Directory(t), Cluster: &store.Cluster{ListenAddress: "nowhere"}},
	); err == nil {
		t.Error("an address without a port was taken")
	}
}
