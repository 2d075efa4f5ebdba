// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/sampling"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// hastyDictionaries are trained within moments, by members that are to have some.
var hastyDictionaries = dictionary.Timing{
	Poll: 10 * time.Millisecond, Settle: 100 * time.Millisecond, Lease: 2 * time.Second, Grace: time.Second,
	First: time.Millisecond, Interval: 300 * time.Millisecond,
}

// referring puts an order until it refers to a dictionary.
func referring(m *member, put func()) {
	m.Helper()
	for deadline := time.Now().Add(3 * patience); ; { // As await.
		before := m.Report(m.Context()).GetDictionaries().GetMessages()
		put()
		if m.Report(m.Context()).GetDictionaries().GetMessages() > before {
			return
		}
		if time.Now().After(deadline) {
			m.Fatalf("messages refer to no dictionary: %v", m.Report(m.Context()).GetDictionaries())
		}
	}
}

// TestDictionaries: what refers to a dictionary is got by every way as it was put, by clients who take stored messages
// too, and becomes a dead letter that needs no dictionary.
func TestDictionaries(t *testing.T) {
	for _, id := range []codec.ID{codec.Zstd, codec.Deflate} {
		t.Run(id.String(), func(t *testing.T) { dictionariesOf(t, id) })
	}
}

func dictionariesOf(t *testing.T, id codec.ID) {
	m := newMember(t)
	m.config.Compression.Codecs = []string{id.String()}
	host, _, err := net.SplitHostPort(m.config.GetListenAddress())
	if err != nil {
		t.Fatal(err)
	}
	m.config.ServiceAddress = freeAddressOf(t, host)
	m.config.Redelivery = &wirev1.QueueRedelivery{VisibilityTimeout: durationpb.New(time.Hour), MaxDeliveries: 5}
	m.config.CompressionMinSize = 1
	if r := m.Report(t.Context()); !r.GetDictionaries().GetDeflate() {
		t.Error("an agent that starts does not say that it knows dictionaries")
	}
	pool := m.certify()
	m.run()
	m.await("it serves", serves)
	conn, err := m.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	const length = 1000
	orders := codectest.Orders(7, 1000, length)
	put := func(plain []byte) {
		t.Helper()
		if _, err := js.Publish(t.Context(), "orders.new", plain); err != nil {
			t.Fatal(err)
		}
	}
	for _, plain := range orders[:400] {
		put(plain)
	}
	if r := m.Report(t.Context()); r.GetDictionaries().GetKept() != 0 {
		t.Errorf("dictionaries that nobody asked for: %v", r.GetDictionaries())
	}
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.Dictionaries = "2", true })
	m.await("the second configuration is in effect", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
	if id == codec.Deflate {
		// Not all members know those of deflate.
		r := m.await("it says why there is none", func(r *wirev1.QueueReport) bool {
			return r.GetDictionaries().GetProblem() != ""
		})
		if r.GetDictionaries().GetKept() != 0 {
			t.Errorf("one of deflate is kept: %v", r.GetDictionaries())
		}
		m.change(func(c *wirev1.QueueConfig) { c.Revision, c.DeflateDictionaries = "2a", true })
	}
	// They are trained on stored messages, until clients put others.
	r := m.await("a dictionary is in use", func(r *wirev1.QueueReport) bool {
		return r.GetDictionaries().GetCurrent() != nil
	})
	if c := r.GetDictionaries().GetCurrent(); c.GetCodec() != id.String() || c.GetTrainingMessages() < 200 ||
		c.GetWireBytes()*2 > c.GetWireBytesWithout() {
		t.Errorf("in use: %v", c)
	}
	byNATS, byService := orders[500], orders[501]
	referring(m, func() { put(byNATS) })
	client, ctx := m.caller(pool, "", "secret")
	total := 0 // None has left yet.
	referring(m, func() {
		put, err := client.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Payload: byService}}})
		if err != nil || put.GetResults()[0].GetSequence() == 0 {
			t.Fatal(put, err)
		}
		total = int(put.GetResults()[0].GetSequence())
	})

	// Nobody but the queue puts what refers to one.
	forged := &nats.Msg{Subject: "orders.new", Data: []byte("(\xb5/\xfd"), Header: nats.Header{
		message.CodecHeader: {id.String() + ";1000;AAEqvw8eLTxLWml4"},
	}}
	if ack, err := js.PublishMsg(t.Context(), forged); err == nil {
		t.Errorf("a client put what refers to a dictionary: %+v", ack)
	}
	result, err := client.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{
		Payload: forged.Data, StoredForm: &messagesv1.StoredForm{
			Codec: id.String(), EngineClass: "software", Length: 1000, Dictionary: r.GetDictionaries().GetCurrent().GetNumber(),
		},
	}}})
	if err != nil || result.GetResults()[0].GetRefused() != messagesv1.PutRefusal_PUT_REFUSAL_INVALID {
		t.Errorf("a client of gRPC put what refers to a dictionary: %v, %v", result, err)
	}

	sampled := 0
	if _, err := m.Sample(t.Context(), sampling.Request{MaxBytes: 16 << 20, MaxItems: 4096}, func(i sampling.Item) error {
		if bytes.Equal(i.Content, byNATS) || bytes.Equal(i.Content, byService) {
			sampled++
		}
		return nil
	}); err != nil || sampled < 2 {
		t.Errorf("sampled %d of them: %v", sampled, err)
	}
	gotByService(t, m, client, total, byNATS, byService)
	dead, err := client.Get(
		ctx, &messagesv1.GetRequest{Wait: durationpb.New(time.Minute), DeadLetters: true, Stored: true},
	)
	if err != nil || len(dead.GetMessages()) != 1 || dead.GetMessages()[0].GetMessage().GetStoredForm() != nil ||
		!bytes.Equal(dead.GetMessages()[0].GetMessage().GetPayload(), byNATS) {
		t.Fatalf("the dead letter: %v, %v", dead, err)
	}
	m.change(func(c *wirev1.QueueConfig) { c.Revision, c.Dictionaries = "3", false })
	m.await("no dictionary is kept for the dead letter", func(r *wirev1.QueueReport) bool {
		return r.GetDictionaries().GetKept() == 0
	})
}

// gotByService gets all messages as they are stored, and rejects one of the first of the wanted ones.
func gotByService(t *testing.T, m *member, client messagesv1.MessageServiceClient, total int, wanted ...[]byte) {
	t.Helper()
	found, rejected := 0, false
	for got := 0; got < total; {
		answer, err := client.Get(t.Context(), &messagesv1.GetRequest{
			Wait: durationpb.New(time.Minute), MaxMessages: 256, Stored: true,
		})
		if err != nil || len(answer.GetMessages()) == 0 {
			t.Fatalf("%d of %d messages: %v", got, total, err)
		}
		got += len(answer.GetMessages())
		var done []string
		for _, one := range answer.GetMessages() {
			if one.GetDamage() != "" || one.GetMessage().GetStoredForm().GetDictionary() != 0 {
				t.Fatalf("message %d: %q, %v", one.GetSequence(), one.GetDamage(), one.GetMessage().GetStoredForm())
			}
			for i, w := range wanted {
				if !bytes.Equal(one.GetMessage().GetPayload(), w) {
					continue
				}
				found++
				if i == 0 && !rejected {
					rejected = true
					if _, err := client.Reject(t.Context(), &messagesv1.RejectRequest{
						Receipts: []string{one.GetReceipt()},
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			done = append(done, one.GetReceipt())
		}
		if _, err := client.Acknowledge(t.Context(), &messagesv1.AcknowledgeRequest{Receipts: done}); err != nil {
			t.Fatal(err)
		}
	}
	if found < len(wanted) || !rejected {
		t.Errorf("%d of %d messages that refer to a dictionary came plain", found, len(wanted))
	}
}

// gotByNATS gets all messages, by a client who takes them as they are stored.
func gotByNATS(t *testing.T, m *member, connect func() (*nats.Conn, error), wanted ...[]byte) {
	t.Helper()
	conn, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	total := int(m.await("its content is known", func(r *wirev1.QueueReport) bool {
		return r.GetContent() != nil
	}).GetContent().GetMessages())
	found := 0
	for range total {
		one, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Ack(); err != nil {
			t.Fatal(err)
		}
		if form := one.Headers().Get(message.CodecHeader); strings.Contains(form, ";") {
			t.Fatalf("a client got the form %q", form)
		}
		for _, w := range wanted {
			if bytes.Equal(one.Data(), w) {
				found++
			}
		}
	}
	if found < len(wanted) {
		t.Errorf("%d of %d messages that referred to a dictionary are there", found, len(wanted))
	}
}

// TestDictionariesByNATS: clients of NATS get plain what refers to a dictionary, also those who take messages as they
// are stored, after a restart of the member, and what another queue was filled with from the archive.
func TestDictionariesByNATS(t *testing.T) {
	claim := t.TempDir()
	m := newMember(t)
	m.config.Archive = &wirev1.QueueArchiveConfig{Directory: claim, Interval: durationpb.New(time.Millisecond)}
	m.config.Dictionaries, m.config.CompressionMinSize = true, 1
	pool := m.certify()
	stop := m.run()
	m.await("it serves", serves)
	conn, err := m.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	orders := codectest.Orders(8, 1000, 1000)
	last := uint64(0)
	put := func(plain []byte) {
		t.Helper()
		ack, err := js.Publish(t.Context(), "orders.new", plain)
		if err != nil {
			t.Fatal(err)
		}
		last = ack.Sequence
	}
	for _, plain := range orders[:600] {
		put(plain)
	}
	m.await("a dictionary is in use", func(r *wirev1.QueueReport) bool { return r.GetDictionaries().GetCurrent() != nil })
	referring(m, func() { put(orders[700]) })
	m.await("all is archived", func(r *wirev1.QueueReport) bool {
		return r.GetArchive().GetSequence() >= last && r.GetArchive().GetLastTime() != nil
	})
	conn.Close()
	stop()

	other := newMember(t)
	other.change(func(c *wirev1.QueueConfig) {
		c.Restore = &wirev1.QueueRestoreConfig{Directory: claim, Queue: "orders"}
	})
	pool = other.certify()
	stop = other.run()
	other.await("it serves", serves)
	gotByNATS(t, other, func() (*nats.Conn, error) { return other.client(pool, "secret") }, orders[700])
	stop()

	m.begin()
	pool = m.certify()
	m.run()
	m.await("it serves again", serves)
	gotByNATS(t, m, func() (*nats.Conn, error) {
		return nats.Connect("nats://"+m.config.GetListenAddress(), nats.Token("secret"), nats.Timeout(patience),
			nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}), nats.Name("lighterage-accept=stored"))
	}, orders[700])
}
