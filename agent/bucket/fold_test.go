// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestFolded has a server that takes A and a for one: no file is stored with the content or the links of another.
func TestFolded(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{
		"Case": "first", "case": "second", "Dir/x": "1", "dir/x": "2", "dir/deep/y": "3", "other": "4",
	})
	if err := os.Link(filepath.Join(root, "case"), filepath.Join(root, "zlink")); err != nil {
		t.Fatal(err)
	}
	server := objectstoretest.New(t, "")
	spellings := map[string]string{}
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		folded := strings.ToLower(r.URL.Path)
		if spellings[folded] == "" && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
			spellings[folded] = r.URL.Path
		}
		if first := spellings[folded]; first != "" {
			r.URL.Path = first
		}
		return false
	})
	store := open(t, server, prefix)
	for range 2 {
		origin := source(t, root, nil)
		mustWrite(t, origin, store, nil)
		if got, want := keys(server), []string{"Case", "Dir/x", "other"}; !slices.Equal(got, want) {
			t.Errorf("the bucket has %q, want %q", got, want)
		}
		if got := count(origin, tree.OmittedObject); got != 3 {
			t.Errorf("omissions %v, want 3", origin.Omissions().ToWire())
		}
		paths, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
		if want := []string{".", "Case", "Dir", "Dir/x", "other"}; !slices.Equal(paths, want) ||
			contents["Case"] != "first" || contents["Dir/x"] != "1" {
			t.Errorf("read: %q, %q", paths, contents)
		}
	}
	_, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT) || len(keys(server)) != 3 {
		t.Errorf("with delete: %v, and %q are left", err, keys(server))
	}
}
