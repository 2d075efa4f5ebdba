// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// groups returns which of some names are one file.
func groups(t *testing.T, root string, names ...string) map[string]string {
	t.Helper()
	first, got := map[uint64]string{}, map[string]string{}
	for _, name := range names {
		ino := stat(t, filepath.Join(root, name)).Ino
		if first[ino] == "" {
			first[ino] = name
		}
		got[name] = first[ino]
	}
	return got
}

// Whatever shares its content at the destination by chance, size and time being the same, is told apart.
func TestGroupsOfLinks(t *testing.T) {
	shapes := map[string]map[string]string{
		"Apart":  {},
		"Pairs":  {"b": "a", "d": "c"},
		"Across": {"c": "a", "d": "b"},
		"All":    {"b": "a", "c": "a", "d": "a"},
		"Last":   {"d": "c"},
	}
	make := func(t *testing.T, shape map[string]string) string {
		root := t.TempDir()
		for _, name := range []string{"a", "b", "c", "d"} {
			if shape[name] != "" {
				must(t, os.Link(filepath.Join(root, shape[name]), filepath.Join(root, name)))
				continue
			}
			write(t, root, name, "content")
			age(t, filepath.Join(root, name), 5)
		}
		return root
	}
	for from, source := range shapes {
		for to, there := range shapes {
			t.Run(from+"Over"+to, func(t *testing.T) {
				s, d := make(t, source), make(t, there)
				none(t, move(t, s, d, moveOptions{}))
				same(t, s, d, nil)
				got, want := groups(t, d, "a", "b", "c", "d"), groups(t, s, "a", "b", "c", "d")
				for name := range want {
					if got[name] != want[name] {
						t.Errorf("groups are %v instead of %v", got, want)
						break
					}
				}
			})
		}
	}
}

func TestLinkTakesThePlaceOfOthers(t *testing.T) {
	for kind, there := range map[string]func(name string) error{
		"File":      func(name string) error { return os.WriteFile(name, []byte("other"), 0o600) },
		"Link":      func(name string) error { return os.Symlink("/etc/passwd", name) },
		"Directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"FIFO":      func(name string) error { return unix.Mkfifo(name, 0o600) },
	} {
		t.Run(kind, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			write(t, from, "a", "content")
			must(t, os.Link(filepath.Join(from, "a"), filepath.Join(from, "b")), there(filepath.Join(to, "b")))
			_, err := tryMove(from, to, moveOptions{})
			if kind == "Directory" || kind == "FIFO" {
				if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE) {
					t.Errorf("it ends with %v", err)
				}
				return
			}
			must(t, err)
			same(t, from, to, nil)
		})
	}
}

// Only files keep their further names; the others are counted.
func TestLinksOfOthers(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must(t, os.Symlink("target", filepath.Join(from, "a")), unix.Mkfifo(filepath.Join(from, "c"), 0o600),
		unix.Linkat(unix.AT_FDCWD, filepath.Join(from, "a"), unix.AT_FDCWD, filepath.Join(from, "b"), 0),
		os.Link(filepath.Join(from, "c"), filepath.Join(from, "d")))
	for range 2 {
		m := move(t, from, to, moveOptions{})
		if len(m.omitted) != 1 || !slices.Equal(m.examples[tree.OmittedHardLink], []string{"b", "d"}) {
			t.Errorf("omissions are %v", m.examples)
		}
		same(t, from, to, nil)
	}
	// The other way round: what was one becomes two.
	must(t, os.RemoveAll(to), os.Mkdir(to, 0o755))
	none(t, move(t, to, from, moveOptions{mirror: true, allowEmpty: true}))
	for _, name := range []string{"x", "y"} {
		must(t, unix.Mkfifo(filepath.Join(to, name), 0o600))
	}
	must(t, unix.Mkfifo(filepath.Join(from, "x"), 0o600), os.Link(filepath.Join(from, "x"), filepath.Join(from, "y")))
	none(t, move(t, to, from, moveOptions{}))
	if groups(t, from, "x", "y")["y"] != "y" {
		t.Error("they are still one")
	}
}

// The first name that moves is the file, whatever the filter leaves out.
func TestLinksAcrossTheFilter(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{"skipped", "taken"} {
		must(t, os.Mkdir(filepath.Join(from, dir), 0o755))
	}
	write(t, from, "a", "content")
	for _, name := range []string{"skipped/b", "taken/c", "taken/d"} {
		must(t, os.Link(filepath.Join(from, "a"), filepath.Join(from, name)))
	}
	none(t, move(t, from, to, moveOptions{filter: patterns(t, []string{"taken/"}, nil)}))
	if got := groups(t, to, "taken/c", "taken/d"); got["taken/d"] != "taken/c" {
		t.Errorf("groups are %v", got)
	}
}

// A peer may announce links to anything: they are made to files of the tree and to nothing else.
func TestLinksToNoFiles(t *testing.T) {
	volume, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "secret")
	must(t, os.Symlink(outside, filepath.Join(volume, "away")), os.Symlink(
		filepath.Join(outside, "secret"), filepath.Join(volume, "alias"),
	),
		os.Mkdir(filepath.Join(volume, "dir"), 0o755), unix.Mkfifo(filepath.Join(volume, "fifo"), 0o600))
	for _, target := range []string{"away/secret", "alias", "dir", "fifo", "missing", "alias/x"} {
		t.Run(target, func(t *testing.T) {
			d := destination(t, volume, ".")
			look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
			look(t, d, tree.Entry{Path: "zlink", Type: tree.HardLink, Target: target})
			if err := d.Finish(); err == nil {
				t.Error("it is made")
			}
			if _, err := os.Lstat(filepath.Join(volume, "zlink")); err == nil {
				t.Error("there is something")
			}
			if st := stat(t, filepath.Join(outside, "secret")); st.Nlink != 1 {
				t.Errorf("the file outside has %d names", st.Nlink)
			}
		})
	}
}

// A link to a file that was taken back is left out, because the attempt does not count anyway.
func TestLinkToDiscarded(t *testing.T) {
	volume := t.TempDir()
	d := destination(t, volume, ".")
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	look(t, d, tree.Entry{Path: "a", Type: tree.File, Mode: 0o644, Size: 1})
	look(t, d, tree.Entry{Path: "b", Type: tree.HardLink, Target: "a"})
	must(t, d.Discard(1), d.Finish())
	if o := d.Omissions().ToWire(); !slices.ContainsFunc(o, func(o *wirev1.Omission) bool {
		return o.What == tree.OmittedHardLink && o.Count == 1
	}) {
		t.Errorf("omissions are %v", o)
	}
}
