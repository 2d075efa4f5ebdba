// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package handoff_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

// TestServers moves a tree through real servers and leaves nothing.
func TestServers(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			s := sidesOf(t, func() *objectstore.Store {
				return client(t, objectstore.Options{
					Endpoint: server.Endpoint, CABundle: server.CA, CredentialsDirectory: server.Credentials,
				})
			})
			content := noise(8 << 20)
			if err := os.WriteFile(filepath.Join(s.source, "noise"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.attempt(t.Context(), t, 1, directory); err != nil {
				t.Fatal(err)
			}
			s.compare(t, "noise", content)
			for object, err := range s.store().List(t.Context(), "") {
				t.Errorf("left behind: %s, %v", object.Name, err)
			}
			relayed(t, s.store)
		})
	}
}

// relayed has a relay serve senders one after the other, each of which leaves nothing that is in the way of the next.
func relayed(t *testing.T, store func() *objectstore.Store) {
	t.Helper()
	relayOf(t, store(), echo(t))
	for range 5 {
		o := offerOf(t, store())
		if got := say(t, o, "hello"); got != "hello" {
			t.Errorf("the answer is %q", got)
		}
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for object, err := range store().List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, object.Name)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", left)
		}
	}
}
