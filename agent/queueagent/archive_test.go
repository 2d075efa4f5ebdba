// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// TestArchive: what was put into a queue that is lost, and not acknowledged, can be got from another one that is made
// of its archive.
func TestArchive(t *testing.T) {
	claim := t.TempDir()
	xml, _ := corpus.ByName("xml")
	plain := xml.Generate(12000)
	const messages = 50

	first := newMember(t)
	first.change(func(c *wirev1.QueueConfig) {
		c.Archive = &wirev1.QueueArchiveConfig{Directory: claim, Interval: durationpb.New(24 * time.Hour)}
	})
	pool := first.certify()
	stop := first.run()
	first.await("it serves", serves)
	conn, err := first.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		payload := plain // Every second one is not compressed when it is put.
		if i%2 == 0 {
			payload = fmt.Appendf(nil, "<order>%d</order>", i)
		}
		if _, err := js.Publish(t.Context(), "orders.new", payload); err != nil {
			t.Fatal(err)
		}
	}
	// How often it is written may change while it runs.
	first.change(func(c *wirev1.QueueConfig) { c.Revision, c.Archive.Interval = "2", durationpb.New(time.Millisecond) })
	r := first.await("all is archived", func(r *wirev1.QueueReport) bool {
		return r.GetArchive().GetSequence() == messages && r.GetArchive().GetLastTime() != nil &&
			r.GetArchive().GetRanges() > 0
	})
	if a := r.GetArchive(); a.GetPlainBytes() < messages/2*12000 || a.GetWrittenBytes() == 0 ||
		a.GetWrittenBytes() > a.GetPlainBytes()/2 || a.GetLastError() != nil ||
		a.GetCompression().GetCodec() != "zstd" || a.GetCompression().GetReason() == "" ||
		!strings.HasPrefix(a.GetPath(), "orders.") {
		t.Errorf("archive %v", a)
	}
	consumer, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		m, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// It is noted that they have left: the second look that ends from now on has begun after that. What is restored
	// below proves it.
	for range 2 {
		settled := time.Now()
		first.await("the archive is looked at again", func(r *wirev1.QueueReport) bool {
			return r.GetContent().GetMessages() == messages-10 && r.GetArchive().GetLastTime().AsTime().After(settled)
		})
	}
	conn.Close()
	stop()

	// The next one of that name cannot be filled while a file is damaged. It says so, and goes on when it is fixed.
	files, err := filepath.Glob(filepath.Join(claim, "*", "0*.jsonl.*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(good)
	damaged[len(good)/2] ^= 1
	if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	second := newMember(t)
	second.change(func(c *wirev1.QueueConfig) {
		c.Archive = &wirev1.QueueArchiveConfig{Directory: claim, Interval: durationpb.New(time.Millisecond)}
		c.Restore = &wirev1.QueueRestoreConfig{Directory: claim, Queue: "orders"}
	})
	pool = second.certify()
	second.run()
	r = second.await("it is refused", func(r *wirev1.QueueReport) bool { return r.GetRestore().GetLastError() != nil })
	if r.GetRestore().GetLastError().GetReason() != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA ||
		!strings.Contains(r.GetRestore().GetLastError().GetMessage(), filepath.Base(files[0])) ||
		serves(r) || second.health("/readyz") == 200 {
		t.Errorf("report %v", r)
	}
	if err := os.WriteFile(files[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	r = second.await("it serves", serves)
	if d := r.GetRestore(); !d.GetDone() || d.GetMessages() != messages-10 || d.GetBytes() < (messages/2-5)*12000 ||
		d.GetElapsed().AsDuration() <= 0 || d.GetCpuNanos() == 0 || d.GetLastError() != nil {
		t.Errorf("restore %v", d)
	}
	if conn, err = second.client(pool, "secret"); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	if consumer, err = js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"}); err != nil {
		t.Fatal(err)
	}
	for i := 10; i < messages; i++ {
		m, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			t.Fatal(err)
		}
		want := plain
		if i%2 == 0 {
			want = fmt.Appendf(nil, "<order>%d</order>", i)
		}
		if m.Subject() != "orders.new" || !bytes.Equal(m.Data(), want) {
			t.Fatalf("message %d is %s of %d bytes", i, m.Subject(), len(m.Data()))
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// It is archived itself, apart from the other.
	r = second.await("it is archived", func(r *wirev1.QueueReport) bool { return r.GetArchive().GetLastTime() != nil })
	if r.GetArchive().GetPath() == r.GetRestore().GetPath() {
		t.Errorf("both have archive %s", r.GetArchive().GetPath())
	}
}

// TestStoreArchive: a queue is archived to a claim and to an object store, each with a status of its own, and another
// is made of what the store has.
func TestStoreArchive(t *testing.T) {
	server := objectstoretest.New(t, "me")
	at := &wirev1.ObjectStoreConfig{
		Endpoint: server.URL, CaBundle: server.CA, Bucket: objectstoretest.Bucket, Prefix: "east",
		CredentialsDirectory: objectstoretest.Credentials(t, "me", "hush"),
	}
	first := newMember(t)
	first.change(func(c *wirev1.QueueConfig) {
		c.DialPolicy = &wirev1.DialPolicy{} // It does not permit the loopback.
		c.Archive = &wirev1.QueueArchiveConfig{
			Directory: t.TempDir(), Store: at, Interval: durationpb.New(time.Millisecond),
		}
	})
	pool := first.certify()
	stop := first.run()
	serving := func(r *wirev1.QueueReport) bool { return r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING }
	first.await("it serves", serving)
	conn, err := first.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "orders.new", []byte("one")); err != nil {
		t.Fatal(err)
	}
	r := first.await("the claim has it, and the store may not be dialled", func(r *wirev1.QueueReport) bool {
		return r.GetArchive().GetSequence() == 1 && r.GetStoreArchive().GetLastError() != nil
	})
	if f := r.GetStoreArchive().GetLastError(); f.GetReason() != wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE ||
		r.GetArchive().GetLastError() != nil {
		t.Errorf("archives %v, %v", r.GetArchive(), r.GetStoreArchive())
	}
	// What may be dialled counts at once.
	first.change(func(c *wirev1.QueueConfig) {
		c.Revision, c.DialPolicy = "2", &wirev1.DialPolicy{AllowLoopback: true}
	})
	first.await("the store has it", func(r *wirev1.QueueReport) bool {
		return r.GetStoreArchive().GetSequence() == 1 && r.GetStoreArchive().GetLastTime() != nil &&
			r.GetStoreArchive().GetLastError() == nil && r.GetStoreArchive().GetBytes() > 0
	})
	conn.Close()
	stop()

	second := newMember(t)
	second.change(func(c *wirev1.QueueConfig) {
		c.DialPolicy = &wirev1.DialPolicy{AllowLoopback: true}
		c.Restore = &wirev1.QueueRestoreConfig{Store: at, Queue: "orders"}
	})
	second.certify()
	second.run()
	r = second.await("it serves", serving)
	if r.GetRestore().GetMessages() != 1 || !r.GetRestore().GetDone() {
		t.Errorf("restore %v", r.GetRestore())
	}
}
