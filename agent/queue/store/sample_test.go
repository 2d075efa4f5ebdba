// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

// sample takes so many messages, in the order in which they come.
func sample(t *testing.T, s *store.Store, conn *nats.Conn, seed uint64, most int) []string {
	t.Helper()
	var found []string
	err := s.Sample(t.Context(), conn, seed, func(_ nats.Header, payload []byte) (bool, error) {
		found = append(found, string(payload))
		return len(found) < most, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSample(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t)})
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	if found := sample(t, s, conn, 1, 9); len(found) != 0 {
		t.Errorf("an empty queue has %q", found)
	}
	want := map[string]int{}
	for i := range 200 {
		text := fmt.Sprintf("message %d", i)
		put(t, js, "orders.new", text)
		want[text]++
		if i%50 == 0 {
			put(t, js, fmt.Sprintf("$LIGHTERAGE.CHANNEL.orders.%d", i), "a marker")
		}
	}
	count := func(found []string) map[string]int {
		counts := map[string]int{}
		for _, text := range found {
			counts[text]++
		}
		return counts
	}
	before := statistics(t, s, conn)
	if got := count(sample(t, s, conn, 1, 1000)); !maps.Equal(got, want) {
		t.Errorf("not each message once: %v", got)
	}
	some := sample(t, s, conn, 1, 20)
	if again, other := sample(t, s, conn, 1, 20), sample(t, s, conn, 2, 20); fmt.Sprint(again) != fmt.Sprint(some) ||
		fmt.Sprint(other) == fmt.Sprint(some) || len(count(some)) != 20 {
		t.Errorf("%q, %q, %q", some, again, other)
	}
	// Nothing was consumed, and nobody notices.
	if after := statistics(t, s, conn); after.Messages != before.Messages || after.FirstSequence != before.FirstSequence ||
		after.Consumers != 0 || after.Unacknowledged != 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
	told := errors.New("enough")
	if err := s.Sample(t.Context(), conn, 1, func(nats.Header, []byte) (bool, error) {
		return true, told
	}); !errors.Is(err, told) {
		t.Error(err)
	}
}

// TestSampleOfWhatIsLeft: where nearly all messages are gone, those that are there are found nevertheless, each once.
func TestSampleOfWhatIsLeft(t *testing.T) {
	s := start(t, store.Options{Memory: true, Directory: storetest.Directory(t)})
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	const first, last = "the first", "the last"
	put(t, js, "orders", first)
	// As if many had been put and acknowledged in between.
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	const many = 3000
	for i := range many {
		if _, err := js.PublishAsync("orders", nil); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	put(t, js, "orders.x", last)
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("orders"), jetstream.WithPurgeKeep(0)); err != nil {
		t.Fatal(err)
	}
	put(t, js, "orders", first)
	for range 3 {
		put(t, js, "$LIGHTERAGE.CHANNEL.orders.a", "a marker")
	}
	if state := statistics(t, s, conn); state.Messages != 2 {
		t.Fatalf("%+v", state)
	}
	if found := sample(t, s, conn, 3, 9); len(found) != 2 || found[0] == found[1] {
		t.Errorf("%q", found)
	}
}
