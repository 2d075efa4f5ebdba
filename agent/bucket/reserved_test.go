// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
)

// planted is a source with an index in a subdirectory, of which somebody hopes that it is taken for ours when the
// subdirectory is read.
func planted(t *testing.T) *tree.Source {
	t.Helper()
	root := t.TempDir()
	put(t, root, map[string]string{
		"a": "1", "sub/.lighterage/index": "evil", "sub/deep/.lighterage": "a file", "sub/x": "2", "sub/.lighterage-x": "3",
		".lighterage-probe/x": "4",
	})
	return source(t, root, nil)
}

func count(s bucket.Origin, what string) uint64 {
	for _, o := range s.Omissions().ToWire() {
		if o.GetWhat() == what {
			return o.GetCount()
		}
	}
	return 0
}

func TestReserved(t *testing.T) {
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	origin := planted(t)
	server.Add(prefix+"/other/.lighterage/index", []byte("of another Transfer"), time.Now())
	mustWrite(t, origin, store, func(o *bucket.WriteOptions) { o.Delete = true })
	want := []string{"a", "other/.lighterage/index", "sub/.lighterage-x", "sub/x"}
	if got := keys(server); !slices.Equal(got, want) {
		t.Errorf("the bucket has %q, want %q", got, want)
	}
	if got := count(origin, tree.OmittedStaging); got != 3 {
		t.Errorf("omissions %v, want 3", origin.Omissions().ToWire())
	}
	s := bucket.NewSource(t.Context(), store, nil)
	paths, _, _ := entries(t, s)
	if want := []string{".", "a", "other", "sub", "sub/.lighterage-x", "sub/deep", "sub/x"}; !slices.Equal(paths, want) {
		t.Errorf("read: %q, want %q", paths, want)
	}
	if got := count(s, tree.OmittedObject); got != 1 {
		t.Errorf("read: omissions %v, want 1", s.Omissions().ToWire())
	}
}
