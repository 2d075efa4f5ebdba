// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package archive_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

// TestServers holds a round trip against real servers.
func TestServers(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			at := objectstoretest.Open(t, start(t).Options(storePrefix))
			roundTrip(t, at, func(name string) {
				if err := at.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
