// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package objectstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestServers holds the client and the probe against real servers.
func TestServers(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			o := server.Options("east/bank")
			store := objectstoretest.Open(t, o)
			t.Run("Probe", func(t *testing.T) {
				verdicts, err := objectstore.Probe(t.Context(), store)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range verdicts {
					t.Logf("%s: %v", v.Promise, v.Problem)
				}
				if got := broken(verdicts); len(got) > 0 {
					t.Errorf("not kept: %v", got)
				}
				if left, err := list(t, store, ""); err != nil || len(left) > 0 {
					t.Errorf("it leaves %v, %v", left, err)
				}
			})
			t.Run("Names", func(t *testing.T) {
				names := []string{"a b/+&%=?#;", "a-b/c", "a/b", "ü/ß", "~'()*!@$,:", "a%2Fb", strings.Repeat("x", 200)}
				slices.Sort(names)
				for _, name := range names {
					put(t, store, "n/"+name, name)
				}
				var want []string
				for _, name := range names {
					want = append(want, "n/"+name)
					if got, err := get(t, store, "n/"+name, "", 0, int64(len(name))); err != nil || got != name {
						t.Errorf("%q: %q, %v", name, got, err)
					}
				}
				if got, err := list(t, store, "n/"); err != nil || !slices.Equal(got, want) {
					t.Errorf("listed %q, %v", got, err)
				}
			})
			t.Run("Errors", func(t *testing.T) {
				missing := o
				missing.Bucket = "missing"
				_, err := objectstoretest.Open(t, missing).Put(t.Context(), "a", strings.NewReader("x"), 1, always)
				if !errors.Is(err, objectstore.ErrNoBucket) {
					t.Error(err)
				}
				if _, err := store.Head(t.Context(), "nothing"); !errors.Is(err, objectstore.ErrNotFound) {
					t.Error(err)
				}
				etag := put(t, store, "e", "one")
				if _, err := get(t, store, "e", strings.Repeat("0", len(etag)), 0, 1); !errors.Is(err, objectstore.ErrChanged) {
					t.Error(err)
				}
				u, err := store.Create(t.Context(), "u", nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = store.Complete(t.Context(), u, []objectstore.Part{{Number: 1, ETag: etag}}, false)
				if !errors.Is(err, objectstore.ErrInvalid) {
					t.Error(err)
				}
				if err := store.Abort(t.Context(), u); err != nil {
					t.Error(err)
				}
			})
			if name == "moto" {
				return // it checks no signatures
			}
			t.Run("Rotation", func(t *testing.T) {
				objectstoretest.WriteCredential(t, o.CredentialsDirectory, wirev1.ObjectStoreSecretAccessKeyKey, "another")
				objectstoretest.Eventually(t, "another key to be denied", func() bool {
					_, err := list(t, store, "")
					return errors.Is(err, objectstore.ErrAccessDenied)
				})
				objectstoretest.WriteCredential(
					t, o.CredentialsDirectory, wirev1.ObjectStoreSecretAccessKeyKey, objectstoretest.SecretKey,
				)
				objectstoretest.Eventually(t, "the key to be taken", func() bool {
					_, err := list(t, store, "")
					return err == nil
				})
			})
			t.Run("Pages", func(t *testing.T) {
				for i := range 1100 {
					put(t, store, "p/"+strings.Repeat("0", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), "x")
				}
				if got, err := list(t, store, "p/"); err != nil || len(got) != 1100 {
					t.Errorf("%d, %v", len(got), err)
				}
			})
		})
	}
}
