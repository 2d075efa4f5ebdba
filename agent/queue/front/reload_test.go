// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// TestReload: another configuration counts for messages put from then on, and all stay readable.
func TestReload(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	plain := xml(t, 12000)
	reload := func(change func(*message.EncodingOptions)) {
		t.Helper()
		if err := q.front.Reload(settings(t, change)); err != nil {
			t.Fatal(err)
		}
	}
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
	reload(func(o *message.EncodingOptions) { o.Codecs = []codec.ID{codec.Deflate} })
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
	reload(func(o *message.EncodingOptions) { o.MinSize = 0 })
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
	reload(func(o *message.EncodingOptions) { o.Policy.SoftwareDisabled = true })
	q.put(js, &nats.Msg{Subject: "orders", Data: plain})
	for i, want := range []string{"zstd", "deflate", "", ""} {
		if got := q.stored(uint64(i + 1)).Header.Get(message.CodecHeader); got != want {
			t.Errorf("message %d: codec %q, want %q", i+1, got, want)
		}
	}
	// One that hardware elsewhere compressed.
	deflated := q.stored(2)
	deflated.Header.Set(message.EngineHeader, "hardware")
	q.put(js, &nats.Msg{Subject: "orders", Data: deflated.Data, Header: deflated.Header})
	consumer := q.consumer(js, "clerk")
	for i := range 5 {
		m, err := consumer.Next(soon...)
		if err != nil || !bytes.Equal(m.Data(), plain) {
			t.Errorf("message %d: %v", i+1, err)
		}
	}
	got := q.front.Statistics()
	if got.Decompression.Fallback.Operations != 1 || got.Decompression.Software.Operations != 3 ||
		got.Compression.Skipped[message.CompressionOff] != 1 || got.Compression.Skipped[policy.SoftwareDisabled] != 1 {
		t.Errorf("%+v, %+v", got.Compression, got.Decompression)
	}
	for what, s := range map[string]front.Settings{
		"nothing": {}, "no size": {Encoding: settings(t, nil).Encoding, Decoding: settings(t, nil).Decoding},
	} {
		if err := q.front.Reload(s); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestDamaged: a message that cannot be made plain is delivered as it is, and says so.
func TestDamaged(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	form := message.Form{Codec: codec.Zstd, Class: codec.Software, Length: 500, Checksum: 1}
	m := &nats.Msg{Subject: "orders", Data: []byte("no frame"), Header: nats.Header{}}
	for line := range strings.SplitSeq(strings.TrimSpace(string(form.AppendHeaders(nil))), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		m.Header.Set(name, value)
	}
	if _, err := q.direct.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got, err := q.consumer(js, "clerk").Next(soon...)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Data()) != "no frame" || got.Headers().Get(front.ErrorHeader) == "" ||
		got.Headers().Get(message.CodecHeader) != "zstd" {
		t.Errorf("%q, %v", got.Data(), got.Headers())
	}
	if n := q.front.Statistics().Undecodable; n != 1 {
		t.Errorf("%d were counted", n)
	}
}

// TestConsumers: clients' consumers see the queue's messages only.
func TestConsumers(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	if _, err := q.direct.Publish(
		t.Context(), "$LIGHTERAGE.CHANNEL.orders.0011223344556677", []byte("position"),
	); err != nil {
		t.Fatal(err)
	}
	q.put(js, &nats.Msg{Subject: "orders.new", Data: xml(t, 12000)})
	m, err := q.consumer(js, "clerk").Next(soon...)
	if err != nil || m.Subject() != "orders.new" {
		t.Errorf("got %v", err)
	}
	for what, config := range map[string]jetstream.ConsumerConfig{
		"all":             {Durable: "x", FilterSubject: ">"},
		"markers":         {Durable: "x", FilterSubject: "$LIGHTERAGE.>"},
		"markers too":     {Durable: "x", FilterSubjects: []string{"orders.a", "$LIGHTERAGE.>"}},
		"deliver to API":  {DeliverSubject: "$JS.API.STREAM.DELETE.orders"},
		"deliver outside": {DeliverSubject: "elsewhere"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var err error
		if config.DeliverSubject != "" {
			_, err = js.CreatePushConsumer(ctx, "orders", config)
		} else {
			_, err = js.CreateConsumer(ctx, "orders", config)
		}
		cancel()
		if err == nil {
			t.Errorf("%s: made", what)
		}
	}
}

// TestHeadersOnly: a consumer of headers alone learns the length of what was put.
func TestHeadersOnly(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	q.put(js, &nats.Msg{Subject: "orders", Data: xml(t, 12000), Header: nats.Header{"A": {"1"}}})
	c, err := js.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{HeadersOnly: true, InactiveThreshold: patience},
	)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(soon...)
	if err != nil || m.Headers().Get("Nats-Msg-Size") != "12000" || m.Headers().Get("A") != "1" ||
		m.Headers().Get(message.CodecHeader) != "" || len(m.Data()) > 0 {
		t.Errorf("%v, %v", m, err)
	}
}
