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
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestDisplaced changes files to directories and the other way round: what was there goes when what takes its place is
// there, and not before.
func TestDisplaced(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"dir/one": "1", "file": "2", "keep": "3", "name": "4"})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	server.Add(prefix+"/foreign", []byte("theirs"), time.Now())
	for _, path := range []string{"file", "name"} {
		if err := os.Remove(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, map[string]string{"file/inside": "5"})
	if err := os.Symlink("keep", filepath.Join(root, "name")); err != nil {
		t.Fatal(err)
	}
	fail := func(name string) {
		server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, name) {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
	}
	fail("/file/inside")
	before := keys(server)
	if _, err := write(t, source(t, root, nil), store, nil); err == nil {
		t.Fatal("a store that takes no object is no error")
	}
	if got := keys(server); !slices.Equal(got, before) {
		t.Errorf("the bucket has %q before anything was put, want %q", got, before)
	}
	server.Intercept(nil)
	progress := mustWrite(t, source(t, root, nil), store, nil)
	if got, want := keys(server), []string{"dir/one", "file/inside", "foreign", "keep"}; !slices.Equal(got, want) {
		t.Errorf("without delete, the bucket has %q, want %q", got, want)
	}
	if progress.GetRemoved() != 2 {
		t.Errorf("removed %d", progress.GetRemoved())
	}

	if err := os.RemoveAll(filepath.Join(root, "dir")); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"dir": "6"})
	fail("/dir")
	mirror := func(o *bucket.WriteOptions) { o.Delete = true }
	if _, err := write(t, source(t, root, nil), store, mirror); err == nil {
		t.Fatal("a store that takes no object is no error")
	}
	if got := keys(server); !slices.Contains(got, "dir/one") {
		t.Errorf("the bucket has %q before anything was put", got)
	}
	server.Intercept(nil)
	mustWrite(t, source(t, root, nil), store, mirror)
	if got, want := keys(server), []string{"dir", "file/inside", "keep"}; !slices.Equal(got, want) {
		t.Errorf("with delete, the bucket has %q, want %q", got, want)
	}
	_, all, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["dir"] != "6" || all["name"].Type != tree.Symlink {
		t.Errorf("entries %+v", all)
	}
}

// TestLinksOfNothing has hard links to files that cannot be stored: a record of them would be of nothing.
func TestLinksOfNothing(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a\\b": "no key", ".lighterage/file": "reserved", "x": "1"})
	for _, err := range []error{
		os.Link(filepath.Join(root, "a\\b"), filepath.Join(root, "link")),
		os.Link(filepath.Join(root, ".lighterage/file"), filepath.Join(root, "second")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, objectstoretest.New(t, ""), prefix)
	origin := source(t, root, nil)
	mustWrite(t, origin, store, nil)
	if got := count(origin, tree.OmittedObject); got != 3 {
		t.Errorf("omissions %v, want 3", origin.Omissions().ToWire())
	}
	s := bucket.NewSource(t.Context(), store, nil)
	if paths, _, _ := entries(t, s); !slices.Equal(paths, []string{".", "x"}) || len(s.Omissions().ToWire()) > 0 {
		t.Errorf("read: %q, omissions %v", paths, s.Omissions().ToWire())
	}
}

// TestMissing has somebody remove an object that the index names.
func TestMissing(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "b": "2", "skip/c": "3"})
	store := open(t, objectstoretest.New(t, ""), prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	server := objectstoretest.New(t, "")
	other := open(t, server, prefix)
	mustWrite(t, bucket.NewSource(t.Context(), store, nil), other, nil)
	f, err := filter.New(nil, []string{"/skip"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "skip/c"} {
		if err := store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s := bucket.NewSource(t.Context(), store, f)
	if paths, _, _ := entries(t, s); !slices.Equal(paths, []string{".", "a"}) || count(s, tree.OmittedMissing) != 1 {
		t.Errorf("read: %q, omissions %v", paths, s.Omissions().ToWire())
	}
	_, err = write(t, bucket.NewSource(t.Context(), store, f), other, func(o *bucket.WriteOptions) {
		o.Delete, o.Filter = true, f
	})
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) || !slices.Contains(keys(server), "b") {
		t.Errorf("a mirror: %v, and %q are left", err, keys(server))
	}
	mustWrite(t, bucket.NewSource(t.Context(), store, f), other, nil)
}

// TestObjectsAsFiles has a server that cannot keep an object below another.
func TestObjectsAsFiles(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"dir/one": "1", "dir/sub/two": "2", "file": "3", "large": "4"})
	server := objectstoretest.New(t, "")
	server.Set(objectstoretest.Faults{Files: true}, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	for _, path := range []string{"dir", "file", "large"} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, map[string]string{"file/deep/inside": "5", "large/parts": random(9, 9<<20)})
	mustWrite(t, source(t, root, nil), store, nil)
	want := []string{"dir/one", "dir/sub/two", "file/deep/inside", "large/parts"}
	if got := keys(server); !slices.Equal(got, want) {
		t.Errorf("the bucket has %q, want %q", got, want)
	}
	put(t, root, map[string]string{"dir": "6"})
	mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	if got, want := keys(server), []string{"dir", "file/deep/inside", "large/parts"}; !slices.Equal(got, want) {
		t.Errorf("the bucket has %q, want %q", got, want)
	}
	if server.Uploads() > 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
}
