// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// dictionaries are one, which may be missing, or not be known now.
type dictionaries struct {
	one     *message.Dictionary
	missing bool
	away    atomic.Int64 // for so many readers
}

func (d *dictionaries) Current() *message.Dictionary { return d.one }
func (d *dictionaries) Offer([]byte)                 {}
func (d *dictionaries) Used()                        {}

func (d *dictionaries) Dictionary(number uint32) ([]byte, error) {
	switch {
	case d.away.Add(-1) >= 0:
		return nil, errors.New("nobody leads")
	case d.missing || number != d.one.Number:
		return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
	}
	return d.one.Content, nil
}

func newDictionaries(t *testing.T) *dictionaries {
	t.Helper()
	content, _, err := zstddict.Train(codectest.Orders(1, 300, 1000), zstddict.MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	number, err := zstddict.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	return &dictionaries{one: &message.Dictionary{Codec: codec.Zstd, Number: number, Content: content}}
}

// referring starts a queue with one message that refers to a dictionary.
func referring(t *testing.T, d *dictionaries, plain []byte) *queue {
	t.Helper()
	s := settings(t, func(o *message.EncodingOptions) { o.Dictionaries, o.MinSize = d, 1 })
	s.Decoding.Use(d)
	q := start(t, s, nil)
	_, js := q.client()
	q.put(js, &nats.Msg{Subject: "orders.new", Data: plain, Header: nats.Header{"A": {"b"}}})
	form, err := message.FormOf(q.stored(1).Header)
	if err != nil || form.Dictionary != d.one.Number {
		t.Fatalf("stored as %+v, %v", form, err)
	}
	return q
}

// TestDictionaryNotKnown: a message whose dictionary is not known now is not delivered as it is stored: the client is
// disconnected, and gets it plain when it comes back.
func TestDictionaryNotKnown(t *testing.T) {
	d, plain := newDictionaries(t), codectest.Orders(2, 1, 1000)[0]
	q := referring(t, d, plain)
	d.away.Store(1)
	reconnected := make(chan struct{}, 8)
	_, js := q.client(
		nats.MaxReconnects(-1), nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }),
		nats.Name("lighterage-accept=stored"),
	)
	c := q.consumer(js, "clerk")
	// The first pull ends with the connection.
	first, err := c.Next(soon...)
	if err == nil {
		t.Fatalf("delivered while its dictionary is not known: %v", first.Headers())
	}
	<-reconnected
	stream, err := q.direct.Stream(t.Context(), "orders")
	if err == nil {
		err = stream.DeleteConsumer(t.Context(), "clerk") // It would come again when the consumer's time is over.
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := q.consumer(js, "clerk").Next(soon...)
	if err != nil || !bytes.Equal(m.Data(), plain) || m.Headers().Get("A") != "b" ||
		m.Headers().Get(message.CodecHeader) != "" {
		t.Fatalf("%v, %v", m, err)
	}
}

// TestDictionaryMissing: a message whose dictionary is gone is delivered as it is stored, with the reason.
func TestDictionaryMissing(t *testing.T) {
	d := newDictionaries(t)
	d.missing = true
	q := referring(t, d, codectest.Orders(2, 1, 1000)[0])
	_, js := q.client()
	m, err := q.consumer(js, "clerk").Next(soon...)
	if err != nil || m.Headers().Get(front.ErrorHeader) == "" || m.Headers().Get(message.CodecHeader) == "" {
		t.Fatalf("%v, %v", m, err)
	}
}

// TestForgedDictionary: a client cannot put what refers to a dictionary, though it is sound.
func TestForgedDictionary(t *testing.T) {
	d := newDictionaries(t)
	q := referring(t, d, codectest.Orders(2, 1, 1000)[0])
	_, js := q.client()
	stored := q.stored(1)
	if ack, err := js.PublishMsg(t.Context(), &nats.Msg{
		Subject: "orders.new", Data: stored.Data, Header: nats.Header{
			message.CodecHeader: stored.Header[message.CodecHeader],
		},
	}); err == nil {
		t.Errorf("stored as %d", ack.Sequence)
	}
}
