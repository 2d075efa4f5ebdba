// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queueagent"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/test/corpus"
)

// TestSample: messages that are stored compressed come out plain, and stay where they are.
func TestSample(t *testing.T) {
	m := newMember(t)
	if _, err := m.Sample(
		t.Context(), sampling.Request{MaxBytes: 1, MaxItems: 1}, nil,
	); !errors.Is(err, sampling.ErrNotReady) {
		t.Errorf("before it runs: %v", err)
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
	xml, _ := corpus.ByName("xml")
	long, short := xml.Generate(12000), []byte("short")
	for _, payload := range [][]byte{long, short, nil, long} {
		if _, err := js.Publish(t.Context(), "orders.new", payload); err != nil {
			t.Fatal(err)
		}
	}
	take := func(bytes int64, items int) (map[string]int, sampling.Seen) {
		t.Helper()
		found := map[string]int{}
		seen, err := m.Sample(t.Context(), sampling.Request{
			MaxBytes: bytes, MaxItems: items, Seed: 1,
		}, func(i sampling.Item) error {
			found[string(i.Content)]++
			if i.Cut() {
				t.Errorf("%d bytes of %d", len(i.Content), i.Length)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, seen
	}
	found, seen := take(1<<20, 100)
	// They are stored in fewer bytes than they have.
	if len(found) != 2 || found[string(long)] != 2 || found[string(short)] != 1 || seen.Items != 4 ||
		seen.Unreadable != 0 || seen.Bytes <= 0 || seen.Bytes >= 24000 {
		t.Errorf("%d different ones, %+v", len(found), seen)
	}
	if found, _ := take(1<<20, 1); len(found) != 1 {
		t.Errorf("%d, want 1", len(found))
	}
	if found, _ := take(4, 100); len(found) != 0 {
		t.Errorf("%d of 4 bytes", len(found))
	}
	if r := m.Report(t.Context()); r.GetContent().GetMessages() != 4 || r.GetContent().GetConsumers() != 0 ||
		r.GetStatistics().GetGets().GetCount() != 0 {
		t.Errorf("%v", r)
	}
	told := errors.New("the caller has gone")
	if _, err := m.Sample(t.Context(), sampling.Request{MaxBytes: 1 << 20, MaxItems: 9}, func(sampling.Item) error {
		return told
	}); !errors.Is(err, told) {
		t.Error(err)
	}
	if l := queueagent.SampleLimits; l.Bytes <= 0 || l.Items <= 0 || l.Duration <= 0 {
		t.Errorf("%+v", l)
	}
}
