// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestNoVolume: a start with external servers that fails waits for no volume, whatever the configuration says of one.
func TestNoVolume(t *testing.T) {
	a := New(Options{Member: "orders-0", Log: slog.New(slog.DiscardHandler), Interval: time.Millisecond})
	options, err := a.storeOptions(&wirev1.QueueConfig{
		Queue: "orders", Members: []*wirev1.QueueMember{{Name: "orders-0"}}, External: &wirev1.QueueExternal{}, Storage: &wirev1.QueueStorage{Directory: "/not/mounted"},
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

// TestLimitUnmoved: that the limit does not follow the room is told when that has lasted, until it does again.
func TestLimitUnmoved(t *testing.T) {
	var log strings.Builder
	a := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	begun := time.Now()
	failed := errors.New("nobody leads")
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
	a.noteLimit(nil, begun)
	if err := a.unmoved.problem(); err != nil {
		t.Errorf("when it follows again: %v", err)
	}
}
