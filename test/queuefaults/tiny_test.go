// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestTinyMessages puts many messages of a few bytes before anybody gets one, a million of them in the long run. They come out in order,
// each once, and the member does not keep them in memory.
func TestTinyMessages(t *testing.T) {
	count, mostMemory := 100_000, int64(512<<20)
	if os.Getenv(longVariable) != "" {
		count = 1_000_000
	}
	q := newQueue(t, 1)
	conn, _ := q.connect("many")
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(1000), jetstream.WithPublishAsyncErrHandler(
		func(_ jetstream.JetStream, _ *nats.Msg, err error) { t.Errorf("put: %v", err) }))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range count {
		if _, err := js.PublishAsync(queueName, strconv.AppendInt(nil, int64(i), 10), jetstream.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatalf("%d puts are not acknowledged", js.PublishAsyncPending())
	}
	t.Logf("%d puts in %v", count, time.Since(begun).Round(time.Millisecond))

	consumer, err := js.CreateConsumer(t.Context(), queueName, jetstream.ConsumerConfig{
		Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000, AckWait: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	for next := 0; next < count; {
		batch, err := consumer.Fetch(1000, jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if got := string(m.Data()); got != strconv.Itoa(next) {
				t.Fatalf("message %d is %q", next, got)
			}
			next++
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Error(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d gets in %v", count, time.Since(begun).Round(time.Millisecond))
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left, err := messages(js, queueName)
		if err == nil && left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages are left: %v", left, err)
		}
	}
	if peak := q.members[0].peakMemory(); peak > mostMemory {
		t.Errorf("the member had %d MiB of memory", peak>>20)
	} else {
		t.Logf("the member had %d MiB of memory at most", peak>>20)
	}
}

// peakMemory ends the member and returns the most that the process had in memory, in bytes.
func (m *member) peakMemory() int64 {
	m.Helper()
	m.mu.Lock()
	command := m.command
	m.mu.Unlock()
	m.stop()
	usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		m.Fatal("nobody says what memory the process had")
	}
	return usage.Maxrss << 10
}
