// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lighterage/lighterage/agent/tree"
)

// A directory that was removed and made again is found again, however often files were put into the former one.
func TestParentIsMadeAgain(t *testing.T) {
	volume := t.TempDir()
	d := destination(t, volume, ".")
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	look(t, d, tree.Entry{Path: "dir", Type: tree.Directory, Mode: 0o755})
	for i := range 3 {
		commit(t, d, uint64(i), file(fmt.Sprintf("dir/%d", i)), "content")
		dir := filepath.Join(volume, "dir")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, d, 3, file("dir/3"), "content")
	if got, err := os.ReadFile(filepath.Join(volume, "dir/3")); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	// Without one it is an error.
	if err := os.RemoveAll(filepath.Join(volume, "dir")); err != nil {
		t.Fatal(err)
	}
	e := tree.Entry{Path: "dir/4", Type: tree.File, Mode: 0o600}
	f, err := d.Stage(4, &e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Commit(&e); err == nil {
		t.Error("a file has its name in a directory that is gone")
	}
}

// However many directories files are put into, few stay open, and none when the destination is closed.
func TestParentsAreBounded(t *testing.T) {
	volume := t.TempDir()
	before := descriptors(t)
	d := destination(t, volume, ".")
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	for i := range 200 {
		dir := fmt.Sprintf("%03d", i)
		look(t, d, tree.Entry{Path: dir, Type: tree.Directory, Mode: 0o755})
		commit(t, d, uint64(i), file(dir+"/file"), "content")
	}
	if open := descriptors(t) - before; open > 50 {
		t.Errorf("%d descriptors are open", open)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if open := descriptors(t) - before; open > 0 {
		t.Errorf("%d descriptors are open after the end", open)
	}
	for i := range 200 {
		if _, err := os.Stat(filepath.Join(volume, fmt.Sprintf("%03d/file", i))); err != nil {
			t.Error(err)
		}
	}
}

// Files are looked for in directories that were there, and only those that Look made are taken as empty.
func TestFreshDirectories(t *testing.T) {
	volume := t.TempDir()
	fill := func(names ...string) {
		for _, name := range names {
			write(t, volume, name, "content")
		}
	}
	fill("a-b/file", "c/file", "c/new2/file", "d")
	entry := func(name string, kind tree.Type) tree.Entry {
		e := tree.Entry{Path: name, Type: kind, Mode: 0o755}
		if kind == tree.File {
			e.Mode, e.Size = 0o600, int64(len("content"))
			if st, err := os.Stat(filepath.Join(volume, name)); err == nil {
				e.Modified, e.Mode = st.ModTime().UnixNano(), uint32(st.Mode().Perm())
				e.UID, e.GID = uint32(os.Getuid()), uint32(os.Getgid())
			}
		}
		return e
	}
	d := destination(t, volume, ".")
	for _, step := range []struct {
		name   string
		kind   tree.Type
		needed bool
	}{
		{".", tree.Directory, false},
		{"a", tree.Directory, false},
		{"a/deep", tree.Directory, false},
		{"a/deep/file", tree.File, true},
		{"a/file", tree.File, true},
		{"a-b", tree.Directory, false},
		{"a-b/file", tree.File, false},
		{"c", tree.Directory, false},
		{"c/file", tree.File, false},
		{"c/new", tree.Directory, false},
		{"c/new/file", tree.File, true},
		{"c/new2", tree.Directory, false},
		{"c/new2/file", tree.File, false},
		{"d", tree.File, false},
	} {
		if needed := look(t, d, entry(step.name, step.kind)); needed != step.needed {
			t.Errorf("%s: needed is %v", step.name, needed)
		}
	}
}

func file(path string) tree.Entry {
	return tree.Entry{Path: path, Type: tree.File, Mode: 0o600, Size: int64(len("content"))}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
