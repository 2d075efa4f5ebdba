// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// TestPutAgainAfterRestart: a message that was put, got and acknowledged is not stored again when its queue was
// restarted.
func TestPutAgainAfterRestart(t *testing.T) {
	const rounds = 2
	volume := &wirev1.QueueStorage{Directory: storetest.Directory(t), Capacity: 1 << 30}
	for round := range rounds {
		m := newMember(t)
		m.change(func(c *wirev1.QueueConfig) { c.Storage = volume })
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
		put := func() *jetstream.PubAck {
			t.Helper()
			ack, err := js.Publish(t.Context(), "orders", []byte("once"), jetstream.WithMsgID("7"))
			if err != nil {
				t.Fatal(err)
			}
			return ack
		}
		if ack := put(); ack.Duplicate != (round > 0) || ack.Sequence != 1 {
			t.Errorf("start %d: %+v", round, ack)
		}
		if round == 0 {
			consumer, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk"})
			if err != nil {
				t.Fatal(err)
			}
			message, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
			if err != nil {
				t.Fatal(err)
			}
			if err := message.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else { // A window that is over by now is one within which nothing is known.
			m.change(func(c *wirev1.QueueConfig) { c.Revision, c.DuplicateWindow = "2", durationpb.New(time.Second) })
			m.await("the window is shorter", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
			for deadline := time.Now().Add(patience); put().Duplicate; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it is known for too long")
				}
			}
		}
		conn.Close()
		stop()
		if round == 0 { // What was admitted counts over a restart.
			quota, err := ids.NewQuota(
				ids.QuotaOptions{
					Limit: 1, Window: time.Hour, Path: filepath.Join(volume.GetDirectory(), "ids-let-in.json"), Messages: 1, Last: 1,
				},
			)
			if err != nil || !quota.Full() {
				t.Errorf("the id that was admitted does not count: %v", err)
			}
		}
	}
}

// TestPutAgainByService: the same of clients of gRPC.
func TestPutAgainByService(t *testing.T) {
	volume := &wirev1.QueueStorage{Directory: storetest.Directory(t), Capacity: 1 << 30}
	for round := range 2 {
		m := newMember(t)
		host, _, err := net.SplitHostPort(m.config.GetListenAddress())
		if err != nil {
			t.Fatal(err)
		}
		m.change(func(c *wirev1.QueueConfig) { c.Storage, c.ServiceAddress = volume, freeAddressOf(t, host) })
		pool := m.certify()
		stop := m.run()
		m.await("it serves", serves)
		client, ctx := m.caller(pool, "", "secret")
		put, err := client.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{Id: "7",
			Payload: []byte("once")}}})
		if err != nil || put.GetResults()[0].GetDuplicate() != (round > 0) || put.GetResults()[0].GetSequence() != 1 {
			t.Fatalf("start %d: %v, %v", round, put, err)
		}
		if round == 0 {
			got, err := client.Get(ctx, &messagesv1.GetRequest{Wait: durationpb.New(patience)})
			if err != nil || len(got.GetMessages()) != 1 {
				t.Fatal(got, err)
			}
			gone, err := client.Acknowledge(
				ctx, &messagesv1.AcknowledgeRequest{Receipts: []string{got.GetMessages()[0].GetReceipt()}},
			)
			if err != nil || gone.GetResults()[0] != messagesv1.ReceiptResult_RECEIPT_RESULT_DONE {
				t.Fatal(gone, err)
			}
		}
		stop()
	}
}
