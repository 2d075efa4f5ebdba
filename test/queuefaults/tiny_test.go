// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestTinyMessages puts many messages of a few bytes before anybody gets one, a million of them in the long run. They
// come out in order, each once, and the member does not keep them in memory.
func TestTinyMessages(t *testing.T) {
	count, mostMemory := 100_000, int64(256<<20)
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
		if _, err := js.PublishAsync(
			queueName, strconv.AppendInt(nil, int64(i), 10), jetstream.WithStallWait(patience),
		); err != nil {
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

// peakMemory returns the most that the process of the member had in memory, in bytes. What the kernel says of a process
// that has ended counts what it was before it became the agent, and at first it is these tests.
func (m *member) peakMemory() int64 {
	m.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline") // process ids are those of other namespaces
	if err != nil {
		m.Fatal(err)
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(command, []byte(m.agent+"\x00")) ||
			!bytes.Contains(command, []byte("\x00"+m.config+"\x00")) {
			continue // another process, or one that has ended meanwhile
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			m.Fatal(err)
		}
		_, peak, _ := bytes.Cut(status, []byte("\nVmHWM:"))
		var kilobytes int64
		if _, err := fmt.Sscan(string(peak), &kilobytes); err != nil {
			m.Fatalf("read the memory of %s: %v", m.name, err)
		}
		return kilobytes << 10
	}
	m.Fatalf("%s has no process", m.name)
	return 0
}
