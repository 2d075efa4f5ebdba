// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/enginetest"
)

// TestEngine: external servers do what every engine does.
func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, settings store.Settings) (store.Engine, *nats.Conn) {
		t.Helper()
		e, conn, err := open(t, options(externaltest.StartTLS(t, nil)), settings)
		if err != nil {
			t.Fatal(err)
		}
		return e, conn
	})
}
