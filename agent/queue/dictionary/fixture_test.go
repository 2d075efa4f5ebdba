// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

const patience = 5 * time.Minute

// hasty does within moments what takes minutes.
var hasty = dictionary.Timing{
	Poll: 10 * time.Millisecond, Settle: 50 * time.Millisecond, Lease: 2 * time.Second, Grace: 50 * time.Millisecond,
	First: time.Millisecond, Interval: 100 * time.Millisecond,
}

// quick trains small dictionaries on few messages, which the race detector does not make take long.
func quick(count, size int) func([][]byte, int) ([]byte, int, error) {
	return func(messages [][]byte, _ int) ([]byte, int, error) {
		return zstddict.Train(messages[max(0, len(messages)-count):], size)
	}
}

// queue is a store with the stream of a queue.
type queue struct {
	*testing.T
	store    *store.Store
	conn     *nats.Conn
	js       jetstream.JetStream
	settings store.Settings
	members  []*member
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	settings := store.Settings{MaxBytes: 64 << 20}
	s, conn, js := storetest.Open(t, store.Options{Capacity: 64 << 20}, settings)
	return &queue{T: t, store: s, conn: conn, js: js, settings: settings}
}

// newMembers is a queue of three members, of which one is seen.
func newMembers(t *testing.T) *queue {
	t.Helper()
	members := storetest.Members(t, store.Options{Capacity: 32 << 20}, nil)
	conn, js := storetest.Connect(t, members[0])
	q := &queue{T: t, store: members[0], conn: conn, js: js, settings: store.Settings{Replicas: 3, MaxBytes: 16 << 20}}
	q.answered(func(ctx context.Context) error { return q.store.Ensure(ctx, conn, q.settings) })
	return q
}

// answered does something until the servers do it, for which they may first have to elect who leads.
func (q *queue) answered(try func(context.Context) error) {
	q.Helper()
	ctx, cancel := context.WithTimeout(q.Context(), storetest.Elections)
	defer cancel()
	for err := try(ctx); err != nil; err = try(ctx) {
		select {
		case <-ctx.Done():
			q.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// member is a keeper with what encodes and decodes by it.
type member struct {
	*queue
	*dictionary.Keeper
	leads    atomic.Bool
	encoding *message.Encoding
	decoding *message.Decoding
	stop     func()
}

func (q *queue) member(leads bool, change func(*dictionary.Options)) *member {
	q.Helper()
	m := &member{queue: q}
	q.members = append(q.members, m)
	m.leads.Store(leads)
	conn, _ := storetest.Connect(q.T, q.store)
	o := dictionary.Options{
		Conn: conn, Queue: storetest.Queue, Leads: m.leads.Load, Timing: hasty, Log: slog.New(slog.DiscardHandler),
		Ensure: func(ctx context.Context) error { return q.store.EnsureDictionaries(ctx, conn, q.settings) },
		Train:  quick(200, 16<<10),
	}
	if change != nil {
		change(&o)
	}
	m.Keeper = dictionary.New(o)
	var err error
	if m.encoding, err = message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd}, MinSize: 1,
		Engines: engines.Default(), Dictionaries: m.Keeper,
	}); err != nil {
		q.Fatal(err)
	}
	q.Cleanup(m.encoding.Close)
	if m.decoding, err = message.NewDecoding(engines.Default()); err != nil {
		q.Fatal(err)
	}
	q.Cleanup(m.decoding.Close)
	m.decoding.Use(m.Keeper)
	m.use(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	m.stop = func() { cancel(); running.Wait() }
	q.Cleanup(m.stop)
	return m
}

// use says whether messages may refer to dictionaries.
func (m *member) use(on bool) {
	m.Set(dictionary.Settings{
		Use: on, Engine: gozstd.New().(codec.DictionaryEngine), Level: codec.Fast,
		Value: func(s policy.Spent) float64 { return s.Wire / max(s.Plain, 1) },
	})
}

func (q *queue) await(what string, done func() bool) {
	q.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, m := range q.members {
				q.Logf("member that leads: %t, samples: %d, reports: %v", m.leads.Load(), m.Samples(), m.Report())
			}
			q.Fatalf("waited in vain until %s", what)
		}
	}
}

// put stores a message and returns its form and sequence.
func (m *member) put(plain []byte) (message.Form, uint64) {
	m.Helper()
	encoder, err := m.encoding.Encoder()
	if err != nil {
		m.Fatal(err)
	}
	defer encoder.Release()
	payload, form, _, err := encoder.Encode(nil, plain)
	if err != nil {
		m.Fatal(err)
	}
	msg := &nats.Msg{Subject: "orders.new", Data: payload, Header: nats.Header{}}
	for name, value := range form.Fields() {
		msg.Header[name] = []string{value}
	}
	ack, err := m.js.PublishMsg(m.Context(), msg)
	if err != nil {
		m.Fatal(err)
	}
	return form, ack.Sequence
}

// refer puts a message until it refers to a dictionary, and returns its sequence. A member that stood still refers to
// none for a while.
func (m *member) refer(plain []byte, number uint32) uint64 {
	m.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		form, sequence := m.put(plain)
		if form.Dictionary == number {
			return sequence
		}
		if time.Now().After(deadline) {
			m.Fatalf("put as %+v; want dictionary %d", form, number)
		}
		m.remove(sequence)
	}
}

// get returns a stored message, inflated.
func (m *member) get(sequence uint64) ([]byte, error) {
	m.Helper()
	stream, err := m.js.Stream(m.Context(), storetest.Queue)
	if err != nil {
		m.Fatal(err)
	}
	raw, err := stream.GetMsg(m.Context(), sequence)
	if err != nil {
		m.Fatal(err)
	}
	form, err := message.FormOf(raw.Header)
	if err != nil {
		return nil, err
	}
	decoder, err := m.decoding.Decoder()
	if err != nil {
		m.Fatal(err)
	}
	defer decoder.Release()
	plain, _, err := decoder.Decode(nil, form, raw.Data, message.MaxLength)
	return plain, err
}

// offer has each message be a sample. With Offer alone, those are dropped that come while a look stands still at the
// samples, as on a busy machine, and in a test no more come.
func (m *member) offer(messages [][]byte) {
	for _, plain := range messages {
		m.OfferUntilKept(plain)
	}
}
