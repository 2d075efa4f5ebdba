// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

// What is kept with the stream stays when its settings change.
func TestMetadata(t *testing.T) {
	s := start(t, store.Options{Directory: storetest.Directory(t)})
	conn, js := connect(t, s)
	ensure(t, s, conn, store.Settings{})
	for value, settings := range map[string]store.Settings{"one": {MaxAge: time.Hour}, "two": {MaxMessages: 7}} {
		if err := store.SetMetadata(t.Context(), conn, "orders", "lighterage.test", value); err != nil {
			t.Fatal(err)
		}
		ensure(t, s, conn, settings)
		stream, err := js.Stream(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if c := stream.CachedInfo().Config; c.Metadata["lighterage.test"] != value || c.MaxAge != settings.MaxAge {
			t.Errorf("the stream has %v and %v", c.Metadata, c.MaxAge)
		}
	}
}
