// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/enginetest"
)

// TestEngine: a server in this process does what every engine does, with a volume, in memory, and in memory that
// spills.
func TestEngine(t *testing.T) {
	for name, o := range map[string]store.Options{"File": {Capacity: 1 << 30}, "Memory": {Capacity: 1 << 26,
		Memory: true}, "Spill": {Capacity: 1 << 30, Spill: &store.Spill{Memory: 1 << 26, Volume: 2 << 30}}} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T, settings store.Settings) (store.Engine, *nats.Conn) {
				t.Helper()
				o := o
				o.Directory = t.TempDir()
				s := start(t, o)
				conn, _ := connect(t, s)
				for _, ensure := range []func(context.Context, *nats.Conn, store.Settings) error{
					s.Ensure, s.EnsureLeases, s.EnsureIDs,
				} {
					if err := ensure(t.Context(), conn, settings); err != nil {
						t.Fatal(err)
					}
				}
				return s, conn
			})
		})
	}
}
