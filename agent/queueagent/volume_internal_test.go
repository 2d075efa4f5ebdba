// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestNoVolume: a start with external servers that fails waits for no volume, whatever the configuration says of one.
func TestNoVolume(t *testing.T) {
	a := New(Options{Member: "orders-0", Log: slog.New(slog.DiscardHandler), Interval: time.Millisecond})
	options, err := a.storeOptions(&wirev1.QueueConfig{
		Queue: "orders", Members: []*wirev1.QueueMember{{Name: "orders-0"}}, External: &wirev1.QueueExternal{},
		DialPolicy: &wirev1.DialPolicy{}, Storage: &wirev1.QueueStorage{Directory: "/not/mounted"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refused := errors.New("the servers refuse it")
	if err := a.awaitVolume(ctx, options, refused); !errors.Is(err, refused) {
		t.Errorf("it waited, and ended with %v", err)
	}
	if a.held != nil {
		t.Errorf("it blames a volume: %v", a.held)
	}
}

// TestLimitUnmoved: that the stream is not closed or opened is told when that has lasted, until it is.
func TestLimitUnmoved(t *testing.T) {
	var log strings.Builder
	a := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	begun := time.Now()
	failed := fmt.Errorf("nobody leads: %w", context.DeadlineExceeded)
	a.noteLimit(failed, begun)
	a.noteLimit(failed, begun.Add(limitPatience))
	if err := a.unmoved.problem(); err != nil || log.Len() > 0 {
		t.Errorf("at once: %v, %s", err, &log)
	}
	for i := range 3 {
		a.noteLimit(failed, begun.Add(limitPatience+time.Duration(i+1)*time.Second))
	}
	if err := a.unmoved.problem(); !errors.Is(err, failed) || strings.Count(log.String(), "nobody leads") != 1 {
		t.Errorf("after some time: %v, %s", err, &log)
	}
	// It is no fault of the volume, which nobody is to delete because of it.
	if f := limitFailure(a.unmoved.problem()); f.GetReason() != wirev1.FailureReason_FAILURE_REASON_INTERNAL ||
		!strings.Contains(f.GetMessage(), "nobody leads") {
		t.Errorf("it is reported as %v", f)
	}
	a.noteLimit(nil, begun)
	if f := limitFailure(a.unmoved.problem()); f != nil {
		t.Errorf("when it is again: %v", f)
	}
}

// TestSpaceWhileDraining: the stream is closed for want of space until that is ended, also when the agent was told to
// end.
func TestSpaceWhileDraining(t *testing.T) {
	const limit = 1 << 30
	kept, conn, js := storetest.Open(t, store.Options{Capacity: limit}, store.Settings{MaxBytes: 1 << 20})
	config := func() jetstream.StreamConfig {
		t.Helper()
		stream, err := js.Stream(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	told, cancel := context.WithCancel(t.Context())
	defer New(Options{Log: slog.New(slog.DiscardHandler)}).keepSpace(told, kept, conn)()
	cancel()
	// Another limit than there is space for is moved back.
	other := config()
	want := other.MaxBytes
	other.MaxBytes = want / 2
	// The server's own.
	maps.DeleteFunc(other.Metadata, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	if _, err := js.UpdateStream(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); config().MaxBytes != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("limited to %d bytes in place of %d", config().MaxBytes, want)
		}
	}
}
