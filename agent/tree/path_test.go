// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/tree"
)

func TestCheckPath(t *testing.T) {
	good := []string{
		".", "a", "a/b", "..a", "a..", "...", "a/.hidden", "a/" + tree.StagingName, "bytes\xff", " ", "a\nb",
		strings.Repeat("n", 255),
	}
	bad := []string{
		"", "/", "/a", "a/", "a//b", "./a", "a/.", "..", "../a", "a/../b", "a/..", "a\x00b", strings.Repeat("n", 256),
		strings.Repeat("a/", 2048) + "a", tree.StagingName, tree.StagingName + "/a",
	}
	for _, path := range good {
		if err := tree.CheckPath(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range bad {
		if tree.CheckPath(path) == nil {
			t.Errorf("%q is accepted", path)
		}
	}
}

func TestCompare(t *testing.T) {
	ordered := []string{".", "a", "a/b", "a/b/c", "a/b-", "a\x01", "a-", "a-/b", "a.", "a0", "aa", "b", "\xff"}
	for i, a := range ordered {
		for j, b := range ordered {
			got := tree.Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%q, %q) is %d", a, b, got)
			}
		}
	}
	shuffled := slices.Clone(ordered)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, tree.Compare)
	if !slices.Equal(shuffled, ordered) {
		t.Errorf("sorted: %q", shuffled)
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{".", "a/b", "../a", "a//b", "/a", "a\x00", "a/..", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if tree.CheckPath(path) != nil {
			return
		}
		if path == "" || len(path) > tree.MaxPath || strings.ContainsRune(path, 0) || path[0] == '/' {
			t.Fatalf("%q is accepted", path)
		}
		for _, element := range strings.Split(path, "/") {
			if element == "" || element == ".." || element == "." && path != "." || len(element) > tree.MaxName {
				t.Fatalf("%q is accepted", path)
			}
		}
	})
}
