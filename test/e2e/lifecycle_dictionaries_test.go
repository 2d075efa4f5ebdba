// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// letterBytes is how long a letter is, about.
	letterBytes = 1000
	// errorHeader marks a message that is delivered as it is stored.
	errorHeader = "Lighterage-Error"
	// slowly is how long training may wait for CPU time.
	slowly = 20 * time.Minute
)

// letterbox is a Queue with a client, into which so many letters were put.
type letterbox struct {
	queue *v1alpha1.Queue
	clerk *queueClient
	put   int
}

// TestLifecycleDictionaries: Queues of three of the previous state, one for each codec, train a dictionary after an
// upgrade, and messages that refer to it outlive a restart of all members. After a rollback that nobody prepared they
// are delivered as they are stored, with an error that says so, and none is lost: after the next upgrade they are plain
// again.
func TestLifecycleDictionaries(t *testing.T) {
	previous, current := releases(t)
	east.install(t, previous)
	namespace := newNamespace(t)
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveBytes},
	}
	if err := east.Create(context.Background(), policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(context.Background(), policy) })
	var boxes []*letterbox
	for _, codec := range []v1alpha1.Codec{v1alpha1.CodecDeflate, v1alpha1.CodecZstd} {
		queue, clerk := east.newQueue(t, namespace, "letters-"+string(codec), func(s *v1alpha1.QueueSpec) {
			s.Replicas, s.Storage.Size = 3, resource.MustParse("128Mi")
			s.Compression = &v1alpha1.QueueCompression{
				PolicyName: policy.Name, Mode: v1alpha1.CompressionAuto, Codecs: []v1alpha1.Codec{codec},
				MinSize: ptr.To(resource.MustParse("100")),
			}
		})
		boxes = append(boxes, &letterbox{queue: queue, clerk: clerk})
	}
	letters := codectest.Orders(1, 440, letterBytes)
	earlier, referring, further := letters[:400], letters[400:430], letters[430:]
	// serve waits until members serve, and connects to them.
	serve := func() {
		t.Helper()
		for _, box := range boxes {
			east.waitForQueue(t, box.queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
			box.clerk.connect(t)
		}
	}
	// install has them be of a release.
	install := func(r installable) {
		t.Helper()
		east.install(t, r)
		east.rolled(t, namespace, v1alpha1.QueueLabel, r)
		serve()
	}
	serve()
	for _, box := range boxes {
		box.clerk.putNext(t, earlier[:20])
	}

	// To which member the clerk puts is a matter of luck; with so many letters the one that leads can train on what is
	// stored as well.
	install(current)
	for _, box := range boxes {
		patch(t, box.queue, func() { box.queue.Spec.Compression.Dictionaries = v1alpha1.QueueDictionariesAuto })
	}
	serve()
	for _, box := range boxes {
		for some := range slices.Chunk(earlier[20:], 50) {
			box.clerk.putNext(t, some)
		}
		box.put = len(earlier)
	}
	for _, box := range boxes {
		eventually(t, slowly, "a dictionary of "+box.queue.Name+" to be in use", func() (bool, string) {
			d := dictionariesOf(t, box.queue)
			return d != nil && d.Current != nil, fmt.Sprintf("%+v", d)
		})
		box.clerk.connect(t)
		eventually(t, slowly, "letters of "+box.queue.Name+" to refer to the dictionary", func() (bool, string) {
			box.clerk.putNext(t, further)
			box.put += len(further)
			d := dictionariesOf(t, box.queue)
			return d != nil && d.Messages > 0, fmt.Sprintf("%+v", d)
		})
		box.clerk.take(t, box.put, box.clerk.plain(t, letters))
		box.clerk.putNext(t, referring)
	}

	for _, box := range boxes {
		restartMembers(t, box.queue)
		box.clerk.connect(t)
		box.clerk.take(t, 10, box.clerk.plain(t, referring))
	}

	install(previous)
	for _, box := range boxes {
		unreadable := 0
		box.clerk.take(t, 20, func(m jetstream.Msg) (acknowledge bool) {
			if m.Headers().Get(errorHeader) != "" {
				unreadable++
			}
			return false
		})
		if unreadable == 0 {
			t.Errorf("the previous state read all of 20 letters of %s: none referred to a dictionary, and nothing was "+
				"tested", box.queue.Name)
		}
	}

	install(current)
	for _, box := range boxes {
		box.clerk.take(t, 20, box.clerk.plain(t, referring))
		east.see(t, box.queue, "be empty, and keep the dictionary for a while", func(s v1alpha1.QueueStatus) bool {
			return s.Statistics != nil && s.Statistics.Depth == 0 && s.Dictionaries != nil && s.Dictionaries.Kept > 0
		})
	}
}

// dictionariesOf is what status says of them now.
func dictionariesOf(t *testing.T, queue *v1alpha1.Queue) *v1alpha1.QueueDictionariesStatus {
	t.Helper()
	if err := east.Get(context.Background(), client.ObjectKeyFromObject(queue), queue); err != nil {
		t.Log(err)
		return nil
	}
	return queue.Status.Dictionaries
}

// plain expects each message to be one of those that were put, without an error, and acknowledges it.
func (c *queueClient) plain(t *testing.T, messages [][]byte) func(jetstream.Msg) bool {
	t.Helper()
	known := map[string]bool{}
	for _, m := range messages {
		known[string(m)] = true
	}
	return func(m jetstream.Msg) bool {
		if problem := m.Headers().Get(errorHeader); problem != "" || !known[string(m.Data())] {
			t.Fatalf("got %d bytes that are no letter: %s", len(m.Data()), problem)
		}
		return true
	}
}

// take gets so many messages, in any order. Those that look does not want to be acknowledged come again.
func (c *queueClient) take(t *testing.T, n int, look func(jetstream.Msg) (acknowledge bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	consumer, err := c.stream.CreateOrUpdateConsumer(ctx, c.queue.Name, jetstream.ConsumerConfig{
		Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy, AckWait: patience,
	})
	if err != nil {
		t.Fatalf("make a consumer: %v", err)
	}
	for got := 0; got < n; {
		batch, err := consumer.Fetch(min(n-got, 100), jetstream.FetchMaxWait(answerTime))
		if err != nil {
			t.Fatalf("get message %d of %d: %v", got, n, err)
		}
		for m := range batch.Messages() {
			got++
			if !look(m) {
				continue
			}
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatalf("acknowledge message %d of %d: %v", got, n, err)
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("got %d of %d messages: %v", got, n, batch.Error())
		}
	}
}
