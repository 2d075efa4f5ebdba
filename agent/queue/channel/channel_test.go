// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// text of a length, which shrinks.
func text(length int) []byte {
	return bytes.Repeat([]byte("<order><item>lighter</item></order>\n"), length/36+1)[:length]
}

// stored returns a message as a queue stores it that compresses with a codec, None: plain.
func stored(t *testing.T, subject string, id codec.ID, plain []byte) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = plain
	if id == codec.None {
		return m
	}
	o := encoding(1)
	o.Codecs = []codec.ID{id}
	e, err := message.NewEncoding(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	encoder, err := e.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	payload, form, _, err := encoder.Encode(nil, plain)
	if err != nil || form.Plain() {
		t.Fatalf("not compressed: %v", err)
	}
	m.Data = payload
	for _, line := range bytes.Split(bytes.TrimSpace(form.AppendHeaders(nil)), []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		m.Header[string(name)] = []string{string(value)}
	}
	return m
}

func formOf(h nats.Header) (message.Form, error) {
	block := []byte("NATS/1.0\r\n")
	for name, values := range h {
		for _, value := range values {
			block = append(block, name+": "+value+"\r\n"...)
		}
	}
	return message.ParseForm(append(block, "\r\n"...))
}

// opened returns the form of a stored message, and its plain payload.
func opened(t *testing.T, m *jetstream.RawStreamMsg) (message.Form, []byte) {
	t.Helper()
	form, err := formOf(m.Header)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := newDecoding().Decoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Release()
	plain, _, err := decoder.Decode(nil, form, m.Data, maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	return form, plain
}

func TestTravelling(t *testing.T) {
	const length = 5000
	for _, c := range []struct {
		name      string
		stored    codec.ID
		sender    []codec.ID
		accepts   channel.Acceptance
		travels   codec.ID
		asItIs    bool
		recompute uint64
	}{
		{"as it is", codec.Zstd, []codec.ID{codec.Zstd, codec.Deflate}, channel.Acceptance{Any: true}, codec.Zstd, true, 0},
		{
			"first match", codec.Deflate, []codec.ID{codec.Zstd, codec.Deflate},
			channel.Acceptance{Codecs: []codec.ID{codec.Deflate}}, codec.Deflate, true, 0,
		},
		{"another codec", codec.Zstd, []codec.ID{codec.Deflate}, channel.Acceptance{Any: true}, codec.Deflate, false, 1},
		{"inflated", codec.Zstd, []codec.ID{codec.Zstd}, channel.Acceptance{}, codec.None, false, 1},
		{
			"sender's priority", codec.Zstd, []codec.ID{codec.None, codec.Zstd}, channel.Acceptance{Any: true}, codec.None,
			false, 1,
		},
		{
			"compressed for the channel", codec.None, []codec.ID{codec.Zstd}, channel.Acceptance{Any: true}, codec.Zstd, false,
			1,
		},
		{"plain", codec.None, nil, channel.Acceptance{Any: true}, codec.None, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			east, west := newQueue(t, "orders", nil), newQueue(t, "incoming", nil)
			put := stored(t, "orders.eu.1", c.stored, text(length))
			put.Header.Set("Nats-Msg-Id", "first")
			put.Header.Set("Customer", "7")
			east.put(t, put)
			var work, workWest channel.Work
			_, network, stop, err := serveWith(west, "127.0.0.1:0", nil, c.accepts, &workWest)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			options := senderOptions(east, network, c.sender...)
			options.Work = &work
			sender, _ := send(t, options)
			got := west.waitFor(t, 1)[0]
			east.waitEmpty(t)
			form, plain := opened(t, got)
			if got.Subject != "incoming.eu.1" || !bytes.Equal(plain, text(length)) {
				t.Errorf("%s with %d bytes arrived", got.Subject, len(plain))
			}
			if want := c.travels; want == codec.None != form.Plain() || want != codec.None && form.Codec != want {
				t.Errorf("it is stored in %v, want %v", form.Codec, want)
			}
			if bytes.Equal(got.Data, put.Data) != c.asItIs {
				t.Errorf("bytes are the same: %v, want %v", !c.asItIs, c.asItIs)
			}
			if got.Header.Get("Customer") != "7" || got.Header.Get(batch.OriginHeader) != "first" ||
				got.Header.Get("Nats-Msg-Id") != "" {
				t.Errorf("headers are %v", got.Header)
			}
			now := sender.Status()
			if now.GetState() != wirev1.ChannelState_CHANNEL_STATE_RUNNING || now.GetCodec() != c.travels.String() ||
				now.GetRecoded() != c.recompute ||
				now.GetMessages() != 1 || now.GetBatches() != 1 || now.GetPlainBytes() != length ||
				now.GetPayloadBytes() != uint64(len(got.Data)) || now.GetInDoubt() != 0 {
				t.Errorf("status is %v", now)
			}
			// What the engines did at either end is counted there, once.
			counted := func(m *meter.Meter) meter.Count {
				s := m.Snapshot()
				return meter.Count{
					Operations: s.Hardware.Operations + s.Software.Operations, Bytes: s.Hardware.Bytes + s.Software.Bytes,
				}
			}
			for what, one := range map[string]struct {
				meter *meter.Meter
				used  bool
			}{
				"compressed":                 {&work.Encoded, !c.asItIs && c.travels != codec.None},
				"inflated":                   {&work.Decoded, !c.asItIs && c.stored != codec.None},
				"looked into":                {&workWest.Decoded, c.travels != codec.None},
				"compressed by the receiver": {&workWest.Encoded, false},
			} {
				var want meter.Count
				if one.used {
					want = meter.Count{Operations: 1, Bytes: length}
				}
				if got := counted(one.meter); got != want {
					t.Errorf("%s: %+v, want %+v", what, got, want)
				}
			}
		})
	}
}

// TestLevels: where the negotiated codec has settings of its own, messages are compressed by these, and by those of the
// queue otherwise.
func TestLevels(t *testing.T) {
	payload := corpus.All()[0].Generate(64 << 10)
	high := encoding(1)
	high.Policy.Level = codec.High
	length := func(options message.EncodingOptions, id codec.ID) int {
		if id == codec.None {
			return len(payload)
		}
		options.Codecs = []codec.ID{id}
		encoding, err := message.NewEncoding(options)
		if err != nil {
			t.Fatal(err)
		}
		defer encoding.Close()
		encoder, err := encoding.Encoder()
		if err != nil {
			t.Fatal(err)
		}
		defer encoder.Release()
		packed, _, _, err := encoder.Encode(nil, payload)
		if err != nil {
			t.Fatal(err)
		}
		return len(packed)
	}
	if length(high, codec.Deflate) >= length(encoding(1), codec.Deflate) {
		t.Fatal("the payload is as long at both levels")
	}
	for _, test := range []struct {
		accepts codec.ID
		by      message.EncodingOptions
		level   wirev1.CompressionLevel
	}{
		{codec.Deflate, high, wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH},
		{codec.Zstd, encoding(1), wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST},
		{codec.None, encoding(1), wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED},
	} {
		t.Run(test.accepts.String(), func(t *testing.T) {
			t.Parallel()
			east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
			_, network := newReceiver(t, west, channel.Acceptance{Codecs: []codec.ID{test.accepts}})
			options := senderOptions(east, network, codec.Deflate, codec.Zstd)
			options.Encodings = map[codec.ID]message.EncodingOptions{codec.Deflate: high}
			east.put(t, &nats.Msg{Subject: "orders", Data: payload})
			sender, _ := send(t, options)
			got := west.waitFor(t, 1)
			if want := length(test.by, test.accepts); len(got[0].Data) != want {
				t.Errorf("%d bytes, want %d", len(got[0].Data), want)
			}
			if now := sender.Status(); now.GetCodec() != test.accepts.String() || now.GetLevel() != test.level {
				t.Errorf("%v at level %v, want %v", now.GetCodec(), now.GetLevel(), test.level)
			}
		})
	}
}

// TestTooLong: a message that the other queue does not take waits, and what is said of it says what to do.
func TestTooLong(t *testing.T) {
	t.Parallel()
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	east.put(t, &nats.Msg{Subject: "orders", Data: make([]byte, 5<<20)})
	_, network := newReceiver(t, west, channel.Acceptance{})
	sender, _ := send(t, senderOptions(east, network))
	eventually(t, "what is said says what to do", func() bool {
		last := sender.Status().GetLastError()
		return last.GetReason() == wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE &&
			strings.Contains(last.GetMessage(), "limits.maxMessageSize")
	})
}

// TestLongMessages: that one request of the sending end asked for fewer bytes than there are ends no session.
func TestLongMessages(t *testing.T) {
	const messages, length = 40, 240_000
	east, west := newQueue(t, "orders", nil), newQueue(t, "incoming", nil)
	for range messages {
		east.put(t, stored(t, "orders", codec.None, text(length)))
	}
	_, network := newReceiver(t, west, channel.Acceptance{})
	sender, _ := send(t, senderOptions(east, network))
	west.waitFor(t, messages)
	east.waitEmpty(t)
	// A stalled machine may end a session as well, which says that nothing was heard.
	if now := sender.Status(); strings.Contains(now.GetLastError().GetMessage(), "MaxBytes") ||
		now.GetStarts() == 1 && now.GetMessages() != messages {
		t.Errorf("status is %v", now)
	}
}

func TestOrderAndPartition(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	receiver, network := newReceiver(t, west, channel.Acceptance{Any: true})
	network.cut(true)
	sender, _ := send(t, senderOptions(east, network, codec.Zstd))
	const count = 150
	for i := range count {
		east.put(t, &nats.Msg{Subject: "orders", Data: fmt.Appendf(nil, "message %d", i)})
	}
	eventually(t, "the sender tries again", func() bool {
		now := sender.Status()
		return now.GetState() == wirev1.ChannelState_CHANNEL_STATE_RETRYING && now.GetNextTryTime() != nil &&
			now.GetLastError().GetReason() == wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST
	})
	network.cut(false)
	for i, m := range west.waitFor(t, count) {
		if want := fmt.Sprintf("message %d", i); string(m.Data) != want {
			t.Fatalf("%q came in place of %q", m.Data, want)
		}
	}
	east.waitEmpty(t)
	now := receiver.Status()
	if len(now) != 1 || !now[0].GetConnected() || now[0].GetMessages() != count || now[0].GetPosition() != count ||
		now[0].GetQueue() != from.Queue {
		t.Errorf("the receiver says %v", now)
	}
	if rate := sender.Status().GetMilliMessagesPerSecond(); rate == 0 {
		t.Error("the rate is 0 after messages were sent")
	}
}

// TestTwoSenders lets two members believe that they lead, for good.
func TestTwoSenders(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	_, network := newReceiver(t, west, channel.Acceptance{Any: true})
	o := senderOptions(east, network)
	o.BatchMessages = 2
	// Each ends the other's channel when it begins its own, which on a slow machine takes longer than short pauses.
	o.Backoff.Most = 5 * time.Second
	send(t, o)
	send(t, o)
	const count = 30
	var want []string
	for i := range count {
		want = append(want, fmt.Sprint(i))
		east.put(t, &nats.Msg{Subject: "orders", Data: []byte(want[i])})
	}
	var got []string
	for _, m := range west.waitFor(t, count) {
		got = append(got, string(m.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestFull fills the receiving queue. The rest waits and comes when there is space.
func TestFull(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", func(c *jetstream.StreamConfig) { c.MaxMsgs = 31 })
	_, network := newReceiver(t, west, channel.Acceptance{Any: true})
	o := senderOptions(east, network)
	o.BatchMessages = 10
	const count = 60
	for i := range count {
		east.put(t, &nats.Msg{Subject: "orders", Data: []byte(fmt.Sprint(i))})
	}
	sender, _ := send(t, o)
	eventually(t, "the queue is said to be full", func() bool {
		return sender.Status().GetLastError().GetReason() == wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL
	})
	consumer, err := west.js.CreateConsumer(
		t.Context(), "orders",
		jetstream.ConsumerConfig{Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "orders"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		m, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data()) != fmt.Sprint(i) {
			t.Fatalf("%q came in place of %d", m.Data(), i)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	east.waitEmpty(t)
}

// TestNewStream sends from a stream that was recreated, whose sequences begin at 1 again.
func TestNewStream(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	_, network := newReceiver(t, west, channel.Acceptance{Any: true})
	for round := range 2 {
		for i := range 5 {
			east.put(t, &nats.Msg{Subject: "orders", Data: fmt.Appendf(nil, "%d/%d", round, i)})
		}
		_, stop := send(t, senderOptions(east, network))
		east.waitEmpty(t)
		stop()
		if got := west.waitFor(t, 5*(round+1)); len(got) != 5*(round+1) {
			t.Errorf("%d messages after round %d", len(got), round)
		}
		if err := east.js.DeleteStream(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		// The server removes the old one's files when it has answered.
		eventually(t, "the stream can be made again", func() bool {
			_, err := east.js.CreateStream(t.Context(), streamConfig("orders"))
			return err == nil
		})
	}
}

func TestStandby(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	_, network := newReceiver(t, west, channel.Acceptance{Any: true})
	o := senderOptions(east, network)
	leads := make(chan bool, 1)
	leads <- false
	o.Leads = func() bool { now := <-leads; leads <- now; return now }
	sender, _ := send(t, o)
	state := func(want wirev1.ChannelState) func() bool {
		return func() bool { return sender.Status().GetState() == want }
	}
	eventually(t, "the sender stands by", state(wirev1.ChannelState_CHANNEL_STATE_STANDBY))
	<-leads
	leads <- true
	eventually(t, "the channel runs", state(wirev1.ChannelState_CHANNEL_STATE_RUNNING))
	<-leads
	leads <- false
	eventually(t, "the sender stands by again", state(wirev1.ChannelState_CHANNEL_STATE_STANDBY))
}

func TestRevoked(t *testing.T) {
	east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
	allowed := make(chan bool, 1)
	allowed <- true
	admit := func(ctx context.Context) (channel.Source, error) {
		now := <-allowed
		allowed <- now
		if !now {
			<-ctx.Done() // What the next try would be told is not what is looked for.
			return channel.Source{}, errors.New("not allowed")
		}
		return from, nil
	}
	receiver, network, stop, err := serve(west, "127.0.0.1:0", admit, channel.Acceptance{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	sender, _ := send(t, senderOptions(east, network))
	eventually(t, "the channel runs", func() bool {
		return sender.Status().GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING
	})
	<-allowed
	allowed <- false
	receiver.EndOthers(func(s channel.Source) bool { return s != from })
	eventually(t, "the sender knows why", func() bool {
		return sender.Status().GetLastError().GetReason() == wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED
	})
	if now := receiver.Status(); len(now) != 1 || now[0].GetConnected() {
		t.Errorf("the receiver says %v", now)
	}
}
