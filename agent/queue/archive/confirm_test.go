// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// Who changes the stream's settings at the moment when a restore ends may undo the note of it, which is made again. So
// nothing is restored twice when the marker has left the stream too.
func TestRestoreConfirmed(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	from.archived(from.archiver(directory, nil), upTo(1))

	to := newQueue(t, "invoices", store.Settings{})
	settings := func() jetstream.StreamConfig {
		t.Helper()
		stream, err := to.js.Stream(t.Context(), "invoices")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	without := settings()
	maps.DeleteFunc(without.Metadata, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	leads := true
	r := to.restorer(directory, func(o *archive.RestoreOptions) {
		o.ConfirmPause, o.Leads = time.Millisecond, func() bool { return leads }
	})
	done := to.restore(r)
	noted := len(settings().Metadata)
	if _, err := to.js.UpdateStream(t.Context(), without); err != nil {
		t.Fatal(err)
	}
	stream, err := to.js.Stream(t.Context(), "invoices")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(settings().Metadata); n >= noted {
		t.Fatalf("%d entries of metadata after the note was undone, %d before", n, noted)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.Confirm(ctx)
	if ctx.Err() != nil || len(settings().Metadata) != noted {
		t.Errorf("metadata %v, want %d entries", settings().Metadata, noted)
	}
	if again := to.restore(to.restorer(t.TempDir(), nil)); !again.Done || again.Messages != done.Messages {
		t.Errorf("status %+v, want that of %+v", again, done)
	}
	to.expect()

	// Who does not lead waits for the one that does.
	if _, err := to.js.UpdateStream(t.Context(), without); err != nil {
		t.Fatal(err)
	}
	leads = false
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	r.Confirm(short)
	if n := len(settings().Metadata); short.Err() == nil || n >= noted {
		t.Errorf("who does not lead noted it: %v", settings().Metadata)
	}
}
