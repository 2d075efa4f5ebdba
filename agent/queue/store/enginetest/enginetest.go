// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enginetest tests what every engine of a queue does.
package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// patience bounds what takes moments, on a machine that does much else.
const patience = time.Minute

// Queue is the name of the queue that an engine is for.
const Queue = "orders"

// Opener returns an engine whose streams are there, with the settings given and nothing in them, and a connection to
// it. Both end with the test.
type Opener func(t *testing.T, settings store.Settings) (store.Engine, *nats.Conn)

// Run tests the engines that an opener returns.
func Run(t *testing.T, open Opener) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Opener){
		"Streams": testStreams, "Full": testFull, "DropOldest": testDropOldest, "Ids": testIDs, "Client": testClient,
		"Configure": testConfigure, "Sweep": testSweep, "Sample": testSample, "State": testState,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func stream(t *testing.T, conn *nats.Conn) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), Queue)
	if err != nil {
		t.Fatal(err)
	}
	return js, s
}

func put(t *testing.T, js jetstream.JetStream, text string, options ...jetstream.PublishOpt) *jetstream.PubAck {
	t.Helper()
	ack, err := js.Publish(t.Context(), Queue+".new", []byte(text), options...)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

// testStreams: settings may be repeated and changed, which changes nothing else, and statistics count what there is.
func testStreams(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{MaxMessages: 10})
	js, before := stream(t, conn)
	put(t, js, "first")
	put(t, js, "second")
	for _, settings := range []store.Settings{{MaxMessages: 10}, {MaxMessages: 5, MaxAge: time.Hour}} {
		for _, ensure := range []func(context.Context, *nats.Conn, store.Settings) error{
			e.Ensure, e.EnsureIDs, e.EnsureLeases,
		} {
			if err := ensure(t.Context(), conn, settings); err != nil {
				t.Fatal(err)
			}
		}
		_, now := stream(t, conn)
		c, created := now.CachedInfo().Config, now.CachedInfo().Created
		if c.MaxMsgs != settings.MaxMessages || c.MaxAge != settings.MaxAge || c.Retention != jetstream.WorkQueuePolicy ||
			!created.Equal(before.CachedInfo().Created) {
			t.Errorf("%+v became %+v", settings, c)
		}
	}
	for _, name := range []string{store.IDStream(Queue), store.LeaseStream(Queue)} {
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := e.Statistics(t.Context(), conn)
	if err != nil || got.Messages != 2 || got.LastSequence != 2 || got.FirstSequence != 1 || got.Bytes == 0 ||
		got.OldestTime == nil || !got.Created.AsTime().Equal(before.CachedInfo().Created) {
		t.Errorf("%+v, %v", got, err)
	}
}

// testFull: a queue that is full rejects messages and keeps those that it has, until some are acknowledged.
func testFull(t *testing.T, open Opener) {
	_, conn := open(t, store.Settings{MaxMessages: 2})
	js, s := stream(t, conn)
	put(t, js, "first")
	put(t, js, "second")
	if _, err := js.Publish(t.Context(), Queue, []byte("third")); !jetstreamerror.Is(err, jetstreamerror.StoreFailed) {
		t.Errorf("a message beyond the limit: %v", err)
	}
	c, err := s.CreateConsumer(
		t.Context(), jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
	)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil || string(m.Data()) != "first" {
		t.Fatalf("%v, %v", m, err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, js, "third")
}

// testDropOldest: a queue that drops its oldest messages does so when it is full.
func testDropOldest(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{MaxMessages: 2, DropOldest: true})
	js, _ := stream(t, conn)
	for i := range 3 {
		put(t, js, fmt.Sprint(i))
	}
	if got, err := e.Statistics(t.Context(), conn); err != nil || got.Messages != 2 || got.FirstSequence != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// testIDs: a message whose id is that of another within the window is not stored.
func testIDs(t *testing.T, open Opener) {
	_, conn := open(t, store.Settings{})
	js, _ := stream(t, conn)
	if first := put(t, js, "once", jetstream.WithMsgID("7")); first.Duplicate {
		t.Error("the first is a duplicate")
	}
	if again := put(t, js, "once", jetstream.WithMsgID("7")); !again.Duplicate || again.Sequence != 1 {
		t.Errorf("again: %+v", again)
	}
}

// testClient: a connection that is introduced may put messages and make consumers. Where the server is the queue's own,
// it may do nothing to the stream and see nothing of what agents keep.
func testClient(t *testing.T, open Opener) {
	e, agent := open(t, store.Settings{})
	inner, err := e.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if err := inner.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(inner)
	read := func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	text, ok := strings.CutPrefix(read(), "INFO ")
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(text), &info); !ok || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	connect := map[string]any{"verbose": false, "pedantic": false, "lang": "go", "protocol": 1, "headers": true}
	if err := e.Introduce(connect, info.Nonce); err != nil {
		t.Fatal(err)
	}
	hello, err := json.Marshal(connect)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(text string) string {
		t.Helper()
		if _, err := inner.Write([]byte(text + "PING\r\n")); err != nil {
			t.Fatal(err)
		}
		for {
			if line := read(); line != "+OK" && !strings.HasPrefix(line, "INFO ") {
				return line
			}
		}
	}
	if got := ask("CONNECT " + string(hello) + "\r\n"); got != "PONG" {
		t.Fatalf("the server answers %q", got)
	}
	if got := ask("PUB " + Queue + " 5\r\nhello\r\n"); got != "PONG" {
		t.Errorf("a message is answered by %q", got)
	}
	// The server stores a message that asks for no answer after it has read it.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, err := e.Statistics(t.Context(), agent)
		if err == nil && got.Messages == 1 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if e.Shared() {
		return // Its owner says what the credentials may do; the front says what clients may.
	}
	if got := ask("PUB $JS.API.STREAM.DELETE." + Queue + " 0\r\n\r\n"); !strings.HasPrefix(got, "-ERR") {
		t.Errorf("a request to delete the stream is answered by %q", got)
	}
}

// testConfigure: a consumer may be made as the engine says it is to be asked for, and one that is there may be asked
// for again.
func testConfigure(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{})
	_, s := stream(t, conn)
	config := jetstream.ConsumerConfig{
		Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, FilterSubjects: []string{Queue + ".a", Queue + ".b"},
	}
	for range 2 {
		fresh, err := e.Configure(t.Context(), config.Durable, config.FilterSubjects)
		if err != nil {
			t.Fatal(err)
		}
		ask := s.CreateOrUpdateConsumer
		if fresh {
			ask = s.CreateConsumer
		}
		if _, err := ask(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	if fresh, err := e.Configure(t.Context(), "", nil); err != nil || fresh {
		t.Errorf("one whose name the server chooses: %v, %v", fresh, err)
	}
	// Where other filters could remove what nobody got, they are refused, and the error says what they are.
	_, err := e.Configure(t.Context(), config.Durable, []string{Queue + ".c"})
	var refused *store.FiltersError
	if err != nil && (!errors.As(err, &refused) || refused.Consumer != config.Durable) {
		t.Errorf("other filters: %v", err)
	}
}

// testSweep: what was not acknowledged stays.
func testSweep(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{})
	js, s := stream(t, conn)
	put(t, js, "kept")
	if _, err := s.CreateConsumer(
		t.Context(), jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy},
	); err != nil {
		t.Fatal(err)
	}
	if removed, done, err := e.NewSweep(conn).Run(t.Context()); removed != 0 || !done || err != nil {
		t.Errorf("%d messages were removed, done %v, %v", removed, done, err)
	}
	if got, err := e.Statistics(t.Context(), conn); err != nil || got.Messages != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// testSample: each message is seen once, and is there still.
func testSample(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{})
	js, _ := stream(t, conn)
	const count = 20
	for i := range count {
		put(t, js, fmt.Sprint(i))
	}
	seen := make(map[string]bool)
	if err := e.Sample(t.Context(), conn, 1, func(_ nats.Header, payload []byte) (bool, error) {
		if seen[string(payload)] {
			t.Errorf("%q is seen twice", payload)
		}
		seen[string(bytes.Clone(payload))] = true
		return true, nil
	}); err != nil || len(seen) != count {
		t.Errorf("%d messages of %d are seen, %v", len(seen), count, err)
	}
	if got, err := e.Statistics(t.Context(), conn); err != nil || got.Messages != count {
		t.Errorf("%+v, %v", got, err)
	}
}

// testState: an engine that nothing is wrong with says so, the only member leads, and nothing of that hangs when it
// ends.
func testState(t *testing.T, open Opener) {
	e, conn := open(t, store.Settings{})
	for deadline := time.Now().Add(patience); !e.Leader() || e.Ready() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("leads: %v, ready: %v", e.Leader(), e.Ready())
		}
	}
	if err := e.Failed(); err != nil {
		t.Error(err)
	}
	if err := e.Crowded(1); err != nil {
		t.Error(err)
	}
	if pending := e.Pending(); len(pending) > 0 || e.Applied() != 0 {
		t.Errorf("clients are waited for that are not there: %v; %d changes came from others", pending, e.Applied())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.KeepSpace(ctx, conn, func(err error) {
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}()
	cancel()
	<-ended
	conn.Close()
	e.Shutdown()
	e.Shutdown()
}
