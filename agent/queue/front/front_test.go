// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/test/corpus"
)

const maxMessage = 1 << 20

// patience bounds what takes moments, on a machine that does much else.
const patience = time.Minute

// soon waits for a message as long. Without heartbeats as rare the library gives up after ten seconds.
var soon = []jetstream.FetchOpt{jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience / 2)}

// queue is a store with a front.
type queue struct {
	*testing.T
	store   *store.Store
	front   *front.Front
	address string
	// direct is the agent's own connection, which sees what is stored.
	direct jetstream.JetStream
}

func settings(t testing.TB, change func(*message.EncodingOptions)) front.Settings {
	t.Helper()
	o := message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd}, MinSize: 1000,
		Engines: engines.Default(),
	}
	if change != nil {
		change(&o)
	}
	encoding, err := message.NewEncoding(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	decoding, err := message.NewDecoding(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(decoding.Close)
	return front.Settings{Encoding: encoding, Decoding: decoding, MaxMessageSize: maxMessage, Open: true}
}

func start(t *testing.T, s front.Settings, change func(*front.Options)) *queue {
	t.Helper()
	kept, _, direct := storetest.Open(t, store.Options{MaxPayload: 8 << 20}, store.Settings{})
	o := front.Options{Queue: "orders", Server: kept, Settings: s}
	if change != nil {
		change(&o)
	}
	q := serveFront(t, o)
	q.store, q.direct = kept, direct
	return q
}

// serveFront serves clients until the test ends.
func serveFront(t *testing.T, o front.Options) *queue {
	t.Helper()
	f, err := front.New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(listener) }()
	t.Cleanup(func() {
		f.Close()
		if err := <-ended; !errors.Is(err, front.ErrClosed) {
			t.Error(err)
		}
	})
	return &queue{T: t, front: f, address: listener.Addr().String()}
}

func (q *queue) connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("nats://"+q.address, append(options, nats.Timeout(patience))...)
}

func (q *queue) client(options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	q.Helper()
	conn, err := q.connect(options...)
	if err != nil {
		q.Fatal(err)
	}
	q.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		q.Fatal(err)
	}
	return conn, js
}

func (q *queue) put(js jetstream.JetStream, m *nats.Msg, options ...jetstream.PublishOpt) *jetstream.PubAck {
	q.Helper()
	ack, err := js.PublishMsg(q.Context(), m, options...)
	if err != nil {
		q.Fatal(err)
	}
	return ack
}

// stored returns a message as it is stored. It waits for it: what was put without asking for an acknowledgement is
// stored some time after the server has read it.
func (q *queue) stored(sequence uint64) *jetstream.RawStreamMsg {
	q.Helper()
	stream, err := q.direct.Stream(q.Context(), "orders")
	if err != nil {
		q.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(q.Context(), patience)
	defer cancel()
	for {
		m, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			q.Fatal(err)
		}
		return m
	}
}

func (q *queue) consumer(js jetstream.JetStream, name string) jetstream.Consumer {
	q.Helper()
	c, err := js.CreateOrUpdateConsumer(q.Context(), "orders", jetstream.ConsumerConfig{Durable: name})
	if err != nil {
		q.Fatal(err)
	}
	return c
}

func xml(t testing.TB, n int) []byte {
	t.Helper()
	c, ok := corpus.ByName("xml")
	if !ok {
		t.Fatal("no corpus")
	}
	return c.Generate(n)
}

// sizes are those at which something changes: of buffers, of what is worked on at once.
var sizes = []int{0, 1, 999, 1000, 3000, 4090, 12000, 16384, 70000, 131072, 200000, maxMessage - 500}

// TestPutAndGet: what clients put is stored compressed, and they get what they put, in order.
func TestPutAndGet(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	var acks []jetstream.PubAckFuture
	plain := xml(t, maxMessage)
	for round := range 3 {
		for i, n := range sizes {
			m := &nats.Msg{
				Subject: "orders.new", Data: plain[:n], Header: nats.Header{"Number": {fmt.Sprint(round*len(sizes) + i)}},
			}
			if i%2 == 0 {
				m.Header = nil
			}
			ack, err := js.PublishMsgAsync(m)
			if err != nil {
				t.Fatal(err)
			}
			acks = append(acks, ack)
		}
	}
	for i, future := range acks {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != uint64(i+1) {
				t.Errorf("message %d became number %d", i, ack.Sequence)
			}
		case err := <-future.Err():
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for i, n := range sizes {
		m := q.stored(uint64(i + 1))
		switch compressed := m.Header.Get(message.CodecHeader) != ""; {
		case compressed != (n >= 1000):
			t.Errorf("%d bytes: headers %v", n, m.Header)
		case compressed && n >= 3000 && len(m.Data) > n/2:
			t.Errorf("%d bytes are stored in %d", n, len(m.Data))
		case !compressed && !bytes.Equal(m.Data, plain[:n]):
			t.Errorf("%d bytes: changed", n)
		}
	}
	consumer := q.consumer(js, "clerk")
	for i := range acks {
		n := sizes[i%len(sizes)]
		m, err := consumer.Next(soon...)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		number := ""
		if i%len(sizes)%2 == 1 {
			number = fmt.Sprint(i)
		}
		if !bytes.Equal(m.Data(), plain[:n]) || m.Headers().Get("Number") != number ||
			m.Headers().Get(message.CodecHeader) != "" {
			t.Errorf("message %d of %d bytes: got %d, headers %v", i, n, len(m.Data()), m.Headers())
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := q.front.Statistics()
	total, small := uint64(len(acks)), uint64(3*3)
	if got.Puts.Count != total || got.Gets.Count != total || got.Compressions.Count != total-small ||
		got.Decompressions.Count != total-small ||
		got.Compression.Skipped[policy.BelowMinimum] != int64(small) || got.Compression.Stored.Operations != int64(small) ||
		got.CompressedBytes >= got.CompressedPlainBytes/2 ||
		got.Opened != 1 || got.Connections != 1 || got.HighWaterConnections != 1 || got.Wire.Wire == 0 ||
		got.RefusedPuts != 0 ||
		got.Undecodable != 0 ||
		got.Compression.CPU <= 0 || got.Decompression.CPU <= 0 {
		t.Errorf("%+v", got)
	}
	q.front.ResetStatistics(time.Now())
	if got := q.front.Statistics(); got.Puts.Count != 0 || got.Compression.UncompressedBytes != 0 ||
		got.Connections != 1 || got.HighWaterConnections != 1 {
		t.Errorf("after a reset: %+v", got)
	}
}

// TestWaysToGet: pull, push, fetch and direct get give plain messages.
func TestWaysToGet(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	conn, js := q.client()
	plain := xml(t, 12000)
	put := func(n int) {
		for range n {
			q.put(js, &nats.Msg{Subject: "orders.new", Data: plain})
		}
	}
	check := func(what string, data []byte, headers nats.Header) {
		t.Helper()
		if !bytes.Equal(data, plain) || headers.Get(message.CodecHeader) != "" {
			t.Errorf("%s: %d bytes, headers %v", what, len(data), headers)
		}
	}
	put(10)
	consumer := q.consumer(js, "clerk")
	batch, err := consumer.Fetch(10, soon...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		n++
		check("fetch", m.Data(), m.Headers())
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 {
		t.Errorf("fetched %d: %v", n, batch.Error())
	}
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	put(1)
	m, err := stream.GetMsg(t.Context(), 11)
	if err != nil {
		t.Fatal(err)
	}
	check("direct get", m.Data, m.Header)
	if err := stream.DeleteConsumer(t.Context(), "clerk"); err != nil {
		t.Fatal(err)
	}

	push, err := js.CreatePushConsumer(t.Context(), "orders", jetstream.ConsumerConfig{
		DeliverSubject: conn.NewInbox(), AckPolicy: jetstream.AckExplicitPolicy, InactiveThreshold: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	pushed := make(chan jetstream.Msg, 20)
	consuming, err := push.Consume(func(m jetstream.Msg) { pushed <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer consuming.Stop()
	put(4)
	for range 5 {
		m := <-pushed
		check("push", m.Data(), m.Headers())
	}
}

// TestCore: subscriptions and requests without JetStream work, and acknowledge puts.
func TestCore(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	conn, _ := q.client()
	other, _ := q.client()
	plain := xml(t, 12000)
	sub, err := other.SubscribeSync("orders.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	ack, err := conn.RequestWithContext(t.Context(), "orders.new", plain)
	if err != nil || string(ack.Data) != `{"stream":"orders","seq":1}` {
		t.Errorf("acknowledged by %q, %v", ack.Data, err)
	}
	m, err := sub.NextMsgWithContext(t.Context())
	if err != nil || !bytes.Equal(m.Data, plain) || len(m.Header) > 0 {
		t.Errorf("%d bytes, headers %v, %v", len(m.Data), m.Header, err)
	}
	// What is no message of the queue is not touched.
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	if err := q.direct.Conn().Publish(inbox, plain); err != nil {
		t.Fatal(err)
	}
	if m, err := answers.NextMsgWithContext(t.Context()); err != nil || !bytes.Equal(m.Data, plain) {
		t.Errorf("an answer: %v", err)
	}
	if got := q.front.Statistics(); got.Compressions.Count != 1 {
		t.Errorf("%+v", got.Compressions)
	}
}

// TestStoredForm: who asks gets what is stored, and may put it again.
func TestStoredForm(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	conn, js := q.client()
	plain := xml(t, 12000)
	q.put(js, &nats.Msg{Subject: "orders.new", Data: plain, Header: nats.Header{"A": {"1"}}})
	q.put(js, &nats.Msg{Subject: "orders.new", Data: plain})
	q.consumer(js, "clerk")

	pull := func(header nats.Header) *nats.Msg {
		t.Helper()
		inbox := conn.NewInbox()
		sub, err := conn.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Unsubscribe()
		request := &nats.Msg{
			Subject: "$JS.API.CONSUMER.MSG.NEXT.orders.clerk", Reply: inbox, Data: []byte(`{"batch":1}`), Header: header,
		}
		if err := conn.PublishMsg(request); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	asked := pull(nats.Header{"Lighterage-Accept": {"stored"}})
	if asked.Header.Get(message.CodecHeader) != "zstd" || asked.Header.Get("A") != "1" || len(asked.Data) > len(plain)/2 {
		t.Errorf("%d bytes, headers %v", len(asked.Data), asked.Header)
	}
	if m := pull(nil); !bytes.Equal(m.Data, plain) {
		t.Errorf("who did not ask got %d bytes, headers %v", len(m.Data), m.Header)
	}
	if got := q.front.Statistics(); got.StoredFormGets != 1 || got.Gets.Count != 2 {
		t.Errorf("%+v", got)
	}

	q.put(js, &nats.Msg{Subject: "orders.again", Data: asked.Data, Header: asked.Header})
	if got := q.stored(3); !bytes.Equal(got.Data, asked.Data) ||
		got.Header.Get(message.ChecksumHeader) != asked.Header.Get(message.ChecksumHeader) {
		t.Errorf("put again: %d bytes, headers %v", len(got.Data), got.Header)
	}
	_, taker := q.client(nats.Name("mover lighterage-accept=stored"))
	consumer, err := taker.Consumer(t.Context(), "orders", "clerk")
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(soon...)
	if err != nil || !bytes.Equal(m.Data(), asked.Data) {
		t.Errorf("the connection asked: %v", err)
	}
	if got := q.front.Statistics().Compression.Skipped[message.AlreadyEncoded]; got != 1 {
		t.Errorf("%d messages were in the form already", got)
	}
}

// TestRefusedPuts: what is not what it says is answered as the stream answers, and the connection stays.
func TestRefusedPuts(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	plain := xml(t, 12000)
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
	good := q.stored(1)
	with := func(name, value string) nats.Header {
		h := nats.Header{}
		for k, v := range good.Header {
			if strings.HasPrefix(k, "Lighterage-") {
				h[k] = v
			}
		}
		h.Set(name, value)
		return h
	}
	bent := bytes.Clone(good.Data)
	bent[len(bent)/2] ^= 1
	for what, m := range map[string]*nats.Msg{
		"checksum":     {Header: with(message.ChecksumHeader, "0000000000000000"), Data: good.Data},
		"codec":        {Header: with(message.CodecHeader, "snappy"), Data: good.Data},
		"one header":   {Header: nats.Header{message.CodecHeader: {"zstd"}}, Data: good.Data},
		"other length": {Header: with(message.LengthHeader, "12001"), Data: good.Data},
		"bomb":         {Header: with(message.LengthHeader, "60000000"), Data: good.Data},
		"cut":          {Header: with("A", "1"), Data: good.Data[:len(good.Data)-1]},
		"bent":         {Header: with("A", "1"), Data: bent},
		"empty":        {Header: with("A", "1")},
		"plain":        {Header: with("A", "1"), Data: plain},
		"rollup":       {Header: nats.Header{"Nats-Rollup": {"all"}}, Data: plain},
		"rollup small": {Header: nats.Header{"nats-rollup": {"sub"}}},
	} {
		m.Subject = "orders.new"
		_, err := js.PublishMsg(t.Context(), m)
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.Code != 400 || refused.Description == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := q.front.Statistics(); got.Puts.Count != 1 || got.RefusedPuts != 11 {
		t.Errorf("%d puts, %d refused", got.Puts.Count, got.RefusedPuts)
	}
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
}

func TestDuplicates(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	plain := xml(t, 12000)
	for i := range 3 {
		if ack := q.put(js, &nats.Msg{Subject: "orders", Data: plain}, jetstream.WithMsgID("7")); ack.Sequence != 1 ||
			ack.Duplicate != (i > 0) {
			t.Errorf("put %d: %+v", i, ack)
		}
	}
	if _, err := js.Publish(t.Context(), "orders", plain, jetstream.WithExpectLastSequence(7)); err == nil {
		t.Error("a wrong expectation was met")
	}
	if got := q.front.Statistics(); got.Duplicates != 2 || got.Puts.Count != 3 || got.RefusedPuts != 1 {
		t.Errorf("%+v", got)
	}
}
