// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestSync(t *testing.T) {
	for name, test := range map[string]struct {
		sync     Sync
		always   bool
		interval time.Duration
	}{
		"nothing said":   {Sync{}, false, DefaultSyncInterval},
		"an interval":    {Sync{Interval: time.Minute}, false, time.Minute},
		"a short one":    {Sync{Interval: 1}, false, MinSyncInterval},
		"a negative one": {Sync{Interval: -1}, false, MinSyncInterval},
		"always":         {Sync{Always: true}, true, DefaultSyncInterval},
	} {
		s, err := Start(
			t.Context(), Options{Queue: "orders", Directory: t.TempDir(), Sync: test.sync, Log: slog.New(slog.DiscardHandler)},
		)
		if err != nil {
			t.Fatal(err)
		}
		if c := s.server.JetStreamConfig(); c.SyncAlways != test.always || c.SyncInterval != test.interval {
			t.Errorf("%s: the server syncs always %v, else each %v", name, c.SyncAlways, c.SyncInterval)
		}
		s.Shutdown()
	}
}

// BenchmarkSync puts messages of 12,000 bytes, 512 of them in the air or one, into a store in TMPDIR.
func BenchmarkSync(b *testing.B) {
	for name, sync := range map[string]Sync{
		"2m": {Interval: 2 * time.Minute}, "10s": {Interval: 10 * time.Second}, "2s": {Interval: 2 * time.Second},
		"500ms":  {Interval: 500 * time.Millisecond},
		"always": {Always: true},
	} {
		for _, pending := range []int{1, 512} {
			b.Run(fmt.Sprintf("%s/%d", name, pending), func(b *testing.B) { benchmarkSync(b, sync, pending) })
		}
	}
}

func benchmarkSync(b *testing.B, sync Sync, pending int) {
	b.Helper()
	s, err := Start(
		b.Context(), Options{Queue: "orders", Directory: b.TempDir(), Sync: sync, Log: slog.New(slog.DiscardHandler)},
	)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Shutdown()
	conn, err := s.Connect("bench")
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	// The oldest go, so that the volume is not what ends it.
	if err := s.Ensure(b.Context(), conn, Settings{MaxBytes: 2 << 30, DropOldest: true}); err != nil {
		b.Fatal(err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		b.Fatal(err)
	}
	message := bytes.Repeat([]byte("twelve bytes"), 1000)
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		if _, err := js.PublishAsync("orders", message, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}
