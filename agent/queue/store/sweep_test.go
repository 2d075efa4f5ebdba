// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

// TestSweep: messages that a volume has though consumers have acknowledged them are removed, and nothing beside them.
func TestSweep(t *testing.T) {
	o := store.Options{Directory: storetest.Directory(t)}
	s := start(t, o)
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	for _, subject := range []string{"orders.a", "orders.b", "orders.a", "orders.c", "orders.b", "orders.a", "orders.d"} {
		put(t, js, subject, subject)
	}
	s.Shutdown()
	messages, before := filepath.Join(o.Directory, "jetstream", "$G", "streams", "orders", "msgs"), t.TempDir()
	if err := os.CopyFS(before, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}

	s = start(t, o)
	_, js = connect(t, s)
	acknowledge := func(name string, n int, filters ...string) {
		t.Helper()
		c, err := js.CreateOrUpdateConsumer(
			t.Context(), "orders", jetstream.ConsumerConfig{Durable: name, FilterSubjects: filters},
		)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			m, err := c.Next(soon...)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	acknowledge("a", 2, "orders.a")                   // places 1 and 3 of 1, 3 and 6
	acknowledge("b-and-c", 2, "orders.b", "orders.c") // 2 and 4 of 2, 4 and 5
	s.Shutdown()

	// So it looks after a crash: what consumers know was written, and that messages are gone was not.
	if err := os.RemoveAll(messages); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(messages, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	conn, js = connect(t, s)
	if got := statistics(t, s, conn); got.Messages != 7 {
		t.Fatalf("the volume has %d messages: this tests nothing", got.Messages)
	}
	sweep := s.NewSweep(conn)
	if removed, done, err := sweep.Run(t.Context()); err != nil || removed != 4 || !done {
		t.Errorf("removed %d, done %v: %v", removed, done, err)
	}
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	var left []uint64
	for sequence := uint64(1); sequence <= 7; sequence++ {
		if _, err := stream.GetMsg(t.Context(), sequence); err == nil {
			left = append(left, sequence)
		}
	}
	if want := []uint64{5, 6, 7}; !slices.Equal(left, want) {
		t.Errorf("left are %d, want %d", left, want)
	}
	acknowledge("a", 1, "orders.a")
	acknowledge("b-and-c", 1, "orders.b", "orders.c")
	if removed, done, err := sweep.Run(t.Context()); err != nil || removed != 0 || !done {
		t.Errorf("once more: removed %d, done %v: %v", removed, done, err)
	}
	if got := statistics(t, s, conn); got.Messages != 1 {
		t.Errorf("%d messages are left, want the one that nobody asked for", got.Messages)
	}
}

// TestSweepUnfinished: a consumer that had messages at the end and has not acknowledged them may have what cannot be
// told yet.
func TestSweepUnfinished(t *testing.T) {
	o := store.Options{Directory: storetest.Directory(t)}
	s := start(t, o)
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	put(t, js, "orders", "1")
	c, err := js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubject: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(soon...)
	if err != nil {
		t.Fatal(err)
	}
	sweep := s.NewSweep(conn)
	if removed, done, err := sweep.Run(t.Context()); err != nil || removed != 0 || done {
		t.Errorf("removed %d, done %v: %v", removed, done, err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, js, "orders", "2") // which is none of what it had
	if _, err := c.Next(soon...); err != nil {
		t.Fatal(err)
	}
	if removed, done, err := sweep.Run(t.Context()); err != nil || removed != 0 || !done {
		t.Errorf("afterwards: removed %d, done %v: %v", removed, done, err)
	}
}

// TestSweepPoison: what a consumer was given as often as it may be is kept, though the consumer's position is beyond
// it.
func TestSweepPoison(t *testing.T) {
	o := store.Options{Directory: storetest.Directory(t)}
	s := start(t, o)
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	put(t, js, "orders", "poison")
	put(t, js, "orders", "good")
	config := jetstream.ConsumerConfig{
		Durable: "clerk", FilterSubject: "orders", MaxDeliver: 2, MaxAckPending: 1, AckPolicy: jetstream.AckExplicitPolicy,
	}
	c, err := js.CreateConsumer(t.Context(), "orders", config)
	if err != nil {
		t.Fatal(err)
	}
	for range config.MaxDeliver {
		m, err := c.Next(soon...)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data()) != "poison" {
			t.Fatalf("got %q", m.Data())
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	m, err := c.Next(soon...)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := func(when string, wantDone bool) {
		t.Helper()
		conn.Close()
		s.Shutdown()
		s = start(t, o)
		conn, js = connect(t, s)
		c, err := js.Consumer(t.Context(), "orders", "clerk")
		if err != nil {
			t.Fatal(err)
		}
		if floor := c.CachedInfo().AckFloor.Stream; floor != 2 {
			t.Fatalf("%s the consumer is at %d: this tests nothing", when, floor)
		}
		if removed, done, err := s.NewSweep(conn).Run(t.Context()); err != nil || removed != 0 || done != wantDone {
			t.Errorf("%s: removed %d, done %v: %v", when, removed, done, err)
		}
		if got := statistics(t, s, conn); got.Messages != 1 {
			t.Errorf("%s %d messages are left", when, got.Messages)
		}
	}
	kept("with the limit", true)
	config.MaxDeliver = -1
	if _, err := js.UpdateConsumer(t.Context(), "orders", config); err != nil {
		t.Fatal(err)
	}
	kept("without it", false)
}

// TestSweepRefiltered: what a consumer was not given because it did not read it then is kept when it reads it now,
// though its position is beyond it. What is put later is not kept for that.
func TestSweepRefiltered(t *testing.T) {
	o := store.Options{Directory: storetest.Directory(t)}
	messages := filepath.Join(o.Directory, "jetstream", "$G", "streams", "orders", "msgs")
	s := start(t, o)
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	next := func() {
		t.Helper()
		c, err := js.Consumer(t.Context(), "orders", "clerk")
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Next(soon...)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	configure := func(filters ...string) {
		t.Helper()
		if fresh, err := s.Configure(t.Context(), "clerk", filters); err != nil || fresh {
			t.Fatal(fresh, err)
		}
		if _, err := js.CreateOrUpdateConsumer(
			t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubjects: filters},
		); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		conn.Close()
		s.Shutdown()
		s = start(t, o)
		conn, js = connect(t, s)
	}
	var last *store.Sweep
	again := func(when string, want int, left uint64) {
		t.Helper()
		if removed, done, err := last.Run(t.Context()); err != nil || removed != want || !done {
			t.Errorf("%s: removed %d, done %v: %v", when, removed, done, err)
		}
		if got := statistics(t, s, conn); got.Messages != left {
			t.Errorf("%s %d messages are left, want %d", when, got.Messages, left)
		}
	}
	sweep := func(when string, want int, left uint64) {
		t.Helper()
		last = s.NewSweep(conn)
		again(when, want, left)
	}
	sweep("at first", 0, 0)
	put(t, js, "orders.b", "never given")
	put(t, js, "orders.a", "a")
	configure("orders.a")
	next()
	restart()
	sweep("as it was", 0, 1)
	configure("orders.a") // which is no change
	configure("orders.a", "orders.b")
	again("at once", 0, 1)
	sweep("by another", 0, 1)
	for _, when := range []string{"after a start", "after another"} {
		restart()
		sweep(when, 0, 1)
	}

	put(t, js, "orders.a", "later")
	restart()
	sweep("with more", 0, 2)
	conn.Close()
	s.Shutdown()
	before := t.TempDir()
	if err := os.CopyFS(before, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	conn, js = connect(t, s)
	next()
	conn.Close()
	s.Shutdown()
	if err := os.RemoveAll(messages); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(messages, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	conn, js = connect(t, s)
	sweep("after an acknowledgement and a crash", 1, 1)
}

// TestConfigure: it is noted when a consumer may have read something else before, and only then.
func TestConfigure(t *testing.T) {
	for what, test := range map[string]struct {
		asked [][]string // names and filters
		want  bool
	}{
		"new ones": {[][]string{{"a", "orders.a"}, {"b", "orders.b"}, {"", "orders.c"}}, false},
		"as before": {
			[][]string{{"clerk", "orders.y", "orders.x"}, {"a", "orders.a"}, {"a", "orders.a", "orders.a"}}, false,
		},
		"more":              {[][]string{{"clerk", "orders.x", "orders.y", "orders.z"}}, true},
		"less":              {[][]string{{"clerk", "orders.x"}}, true},
		"a new one":         {[][]string{{"a", "orders.a"}, {"a", "orders.>"}}, true},
		"one that is there": {[][]string{{"", "orders.c"}, {"name-of-the-server", "orders.>"}}, true},
	} {
		o := store.Options{Directory: storetest.Directory(t)}
		s := start(t, o)
		conn, js := connect(t, s)
		ensure(t, s, conn, store.Settings{})
		if _, err := js.CreateConsumer(
			t.Context(), "orders", jetstream.ConsumerConfig{Durable: "clerk", FilterSubjects: []string{"orders.x", "orders.y"}},
		); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.NewSweep(conn).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, a := range test.asked {
			if _, err := s.Configure(t.Context(), a[0], a[1:]); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Stat(filepath.Join(o.Directory, "kept"))
		if noted := err == nil; noted != test.want {
			t.Errorf("%s: noted: %v", what, noted)
		}
		conn.Close()
		s.Shutdown()
	}
	o := store.Options{Directory: storetest.Directory(t)}
	s := start(t, o)
	if err := os.Mkdir(filepath.Join(o.Directory, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	// Nothing is known of consumers before the first sweep.
	if _, err := s.Configure(t.Context(), "clerk", []string{"orders"}); err == nil {
		t.Error("a change is allowed that could not be noted")
	}
}
