// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func patterns(t *testing.T, include, exclude []string) *filter.Filter {
	t.Helper()
	f, err := filter.New(include, exclude)
	must(t, err)
	return f
}

func paths(t *testing.T, root string) []string {
	t.Helper()
	entries, err := walk(t, open(t, root, "."))
	must(t, err)
	var all []string
	for _, e := range entries[1:] {
		all = append(all, e.Path)
	}
	return all
}

func TestFilteredWalk(t *testing.T) {
	files := []string{
		"a.csv", "a.txt", "data/a.csv", "data/b/c/d.csv", "data/b/e.txt", "empty/x.txt", "tmp/keep/x", "tmp/y",
	}
	tests := map[string]struct {
		include, exclude []string
		want             []string
	}{
		// Directories are made for what is in them, and not for nothing.
		"Include": {
			[]string{"*.csv"}, nil, []string{"a.csv", "data", "data/a.csv", "data/b", "data/b/c", "data/b/c/d.csv"},
		},
		"Rooted":    {[]string{"/data/b/c"}, nil, []string{"data", "data/b", "data/b/c", "data/b/c/d.csv"}},
		"TakenBack": {nil, []string{"*", "!keep"}, []string{"tmp", "tmp/keep"}},
		"Exclude":   {nil, []string{"data", "*.txt", "tmp/**"}, []string{"a.csv", "empty", "tmp"}},
		"Nothing":   {[]string{"nothing"}, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for _, path := range files {
				write(t, from, path, path)
			}
			for _, path := range []string{"data/b/c", "data/b", "data", "tmp/keep", "tmp", "."} {
				age(t, filepath.Join(from, path), int64(len(path)))
			}
			none(t, move(t, from, to, moveOptions{filter: patterns(t, test.include, test.exclude)}))
			if got := paths(t, to); !slices.Equal(got, test.want) {
				t.Errorf("there are %q", got)
			}
			for _, path := range test.want {
				a, b := stat(t, filepath.Join(from, path)), stat(t, filepath.Join(to, path))
				if a.Mtim != b.Mtim {
					t.Errorf("%q has another time", path)
				}
			}
		})
	}
}

// What is excluded is neither opened nor counted.
func TestExcludedIsNotRead(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	public(t, from, to)
	write(t, from, "secret/x", "x")
	write(t, from, "open", "x")
	must(t, os.Chmod(filepath.Join(from, "secret"), 0), os.Chmod(to, 0o777))
	f := patterns(t, nil, []string{"/secret"})
	unprivileged(t, func() {
		s := open(t, from, ".")
		s.SetFilter(f)
		entries, err := walk(t, s)
		if err != nil || len(entries) != 2 || len(s.Omissions().ToWire()) != 0 {
			t.Errorf("the walk finds %v, %v, omits %v", entries, err, s.Omissions().ToWire())
		}
	})
	must(t, os.Chmod(filepath.Join(from, "secret"), 0o700))
}

func TestMirror(t *testing.T) {
	tests := map[string]struct {
		include, exclude []string
		there            []string // "/" at the end: a directory
		gone             []string
	}{
		"Files": {nil, nil, []string{"old", "dir/old", "zz"}, []string{"old", "dir/old", "zz"}},
		"Trees": {
			nil, nil, []string{"old/a/b/c", "old/a/d", "old/e/", "dir/f/g"},
			[]string{"old", "old/a", "old/a/b", "old/a/b/c", "old/a/d", "old/e", "dir/f", "dir/f/g"},
		},
		"Excluded": {
			nil, []string{"*.log", "/keep"}, []string{"a.log", "dir/b.log", "old/c.log", "old/d", "keep/x", "keep/y.log"},
			[]string{"old/d"},
		},
		"Include": {
			[]string{"/dir", "*.csv"}, nil, []string{"x", "a.csv", "dir/old", "other/a.csv", "other/x"},
			[]string{"a.csv", "dir/old", "other/a.csv"},
		},
		"Lost":  {nil, nil, []string{"lost+found/x", "dir/lost+found/x"}, []string{"dir/lost+found", "dir/lost+found/x"}},
		"Bytes": {nil, nil, []string{"\xff/\xfe"}, []string{"\xff", "\xff/\xfe"}},
		"Neighbour": {
			nil, nil, []string{"dir-/x", "dir!", "file0", "fil", "dir/x-/y"},
			[]string{"dir-", "dir-/x", "dir!", "file0", "fil", "dir/x-", "dir/x-/y"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for _, path := range []string{"file", "dir/x", "dir/y"} {
				write(t, from, path, path)
			}
			f := patterns(t, test.include, test.exclude)
			move(t, from, to, moveOptions{filter: f})
			for _, path := range test.there {
				if path[len(path)-1] == '/' {
					must(t, os.MkdirAll(filepath.Join(to, path), 0o755))
				} else {
					write(t, to, path, path)
				}
			}
			before := paths(t, to)
			m := move(t, from, to, moveOptions{filter: f, mirror: true})
			none(t, m)
			want := slices.DeleteFunc(slices.Clone(before), func(path string) bool { return slices.Contains(test.gone, path) })
			if got := paths(t, to); !slices.Equal(got, want) {
				t.Errorf("there are %q instead of %q", got, want)
			}
			if len(before)-len(want) != len(test.gone) || m.removed != uint64(len(test.gone)) {
				t.Errorf("%d are removed, of %q", m.removed, before)
			}
			a, b := stat(t, filepath.Join(from, "dir")), stat(t, filepath.Join(to, "dir"))
			if a.Mtim != b.Mtim {
				t.Error("a directory has another time")
			}
		})
	}
}

func TestMirrorRemovesLinksAndNotWhatTheyNameAndReadOnlyTrees(t *testing.T) {
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, from, "file", "x")
	write(t, outside, "dir/x", "x")
	write(t, to, "old/a/x", "x")
	must(t, os.Symlink(outside, filepath.Join(to, "away")), os.Symlink(
		filepath.Join(outside, "dir"), filepath.Join(to, "old/a/dir"),
	),
		os.Link(filepath.Join(outside, "dir/x"), filepath.Join(to, "hard")),
		os.Chmod(filepath.Join(to, "old/a"), 0o500), os.Chmod(filepath.Join(to, "old"), 0o500))
	m := move(t, from, to, moveOptions{mirror: true})
	if got := paths(t, to); !slices.Equal(got, []string{"file"}) || m.removed != 6 {
		t.Errorf("there are %q, %d were removed", got, m.removed)
	}
	if got := paths(t, outside); !slices.Equal(got, []string{"dir", "dir/x"}) {
		t.Errorf("outside are %q", got)
	}
}

// A mirror may take the place of what it would remove.
func TestMirrorFreesSpace(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a", "content")
	must(
		t, os.Symlink("x", filepath.Join(from, "b")), os.Mkdir(filepath.Join(from, "c"), 0o755),
		os.Link(filepath.Join(from, "a"), filepath.Join(from, "d")),
	)
	for _, path := range []string{"a/x/y", "b/x", "d/x/"} {
		must(t, os.MkdirAll(filepath.Join(to, path), 0o755))
	}
	write(t, to, "c", "file")
	m := move(t, from, to, moveOptions{mirror: true})
	none(t, m)
	same(t, from, to, nil)
	if m.removed != 7 {
		t.Errorf("%d are removed", m.removed)
	}
	write(t, to, "b2/keep", "x")
	must(t, os.Remove(filepath.Join(from, "b")), os.WriteFile(filepath.Join(from, "b2"), nil, 0o600))
	if _, err := tryMove(from, to, moveOptions{mirror: true, filter: patterns(t, nil, []string{"keep"})}); err == nil {
		t.Error("an excluded file is removed with its directory")
	}
	if _, err := os.Stat(filepath.Join(to, "b2/keep")); err != nil {
		t.Error(err)
	}
}

// Nothing is removed before everything else is there.
func TestMirrorWaits(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "file", "x")
	write(t, to, "old", "x")
	move(t, from, to, moveOptions{mirror: true, before: func() {
		if _, err := os.Stat(filepath.Join(to, "old")); err != nil {
			t.Error(err)
		}
	}})
	d := destination(t, to, ".")
	must(t, d.Mirror(nil, false))
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	must(t, d.Close())
	if got := paths(t, to); !slices.Equal(got, []string{"file"}) {
		t.Errorf("an attempt that ended left %q", got)
	}
}

// A mirror of nothing but directories removes nothing, unless it is asked to.
func TestMirrorOfNothing(t *testing.T) {
	for name, test := range map[string]struct {
		from, to   []string
		exclude    []string
		allow      bool
		want       []string
		fails      bool
		wasRemoved uint64
	}{
		"Empty":       {nil, []string{"a", "b/c"}, nil, false, []string{"a", "b", "b/c"}, true, 0},
		"Directories": {[]string{"b/", "d/"}, []string{"b/c"}, nil, false, []string{"b", "b/c", "d"}, true, 0},
		"OnlyADir":    {nil, []string{"b/"}, nil, false, []string{"b"}, true, 0},
		"Filtered":    {[]string{"x.log"}, []string{"a"}, []string{"*.log"}, false, []string{"a"}, true, 0},
		"NothingToDo": {[]string{"b/"}, []string{"b/", "x.log"}, []string{"*.log"}, false, []string{"b", "x.log"}, false, 0},
		"Allowed": {
			[]string{"b/"}, []string{"a", "b/c", "x.log"}, []string{"*.log"}, true, []string{"b", "x.log"}, false, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for root, list := range map[string][]string{from: test.from, to: test.to} {
				for _, path := range list {
					if path[len(path)-1] == '/' {
						must(t, os.MkdirAll(filepath.Join(root, path), 0o755))
					} else {
						write(t, root, path, path)
					}
				}
			}
			m, err := tryMove(
				from, to, moveOptions{mirror: true, allowEmpty: test.allow, filter: patterns(t, nil, test.exclude)},
			)
			if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY) != test.fails || err != nil && !test.fails {
				t.Errorf("the error is %v", err)
			}
			if got := paths(t, to); !slices.Equal(got, test.want) || m.removed != test.wasRemoved {
				t.Errorf("there are %q, %d were removed", got, m.removed)
			}
		})
	}
}

// Nothing is removed when not all is there, and a directory not before the file that replaces it.
func TestMirrorKeepsOthers(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a", "content")
	write(t, from, "b", "content")
	for _, path := range []string{"a/x/y", "old"} {
		write(t, to, path, "x")
	}
	d := destination(t, to, ".")
	must(t, d.Mirror(nil, false))
	s := open(t, from, ".")
	entries, err := walk(t, s)
	must(t, err)
	for _, e := range entries {
		if needed := look(t, d, *e); needed != (e.Type == tree.File) {
			t.Errorf("%q is needed: %v", e.Path, needed)
		}
	}
	if got := paths(t, to); !slices.Equal(got, []string{"a", "a/x", "a/x/y", "old"}) {
		t.Errorf("before a file comes there are %q", got)
	}
	must(t, moveFile(s, d, 1, entries[1], entries[1]))
	d.KeepOthers()
	must(t, d.Finish())
	if got := paths(t, to); !slices.Equal(got, []string{"a", "old"}) || d.Removed() != 3 {
		t.Errorf("there are %q, %d were removed", got, d.Removed())
	}
}
