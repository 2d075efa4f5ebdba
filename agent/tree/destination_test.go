// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func destination(t *testing.T, volume, path string) *tree.Destination {
	t.Helper()
	d, err := tree.OpenDestination(volume, path, "run", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func look(t *testing.T, d *tree.Destination, e tree.Entry) bool {
	t.Helper()
	needed, err := d.Look(&e)
	if err != nil {
		t.Fatal(err)
	}
	return needed
}

func TestDestinationPathIsMade(t *testing.T) {
	volume := t.TempDir()
	d := destination(t, volume, "a/b/c")
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o700, Modified: 1_000_000_001})
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	if st := stat(t, filepath.Join(volume, "a/b/c")); modified(&st) != 1_000_000_001 || st.Mode != unix.S_IFDIR|0o700 {
		t.Errorf("the directory is %+v", st)
	}
}

func modified(st *unix.Stat_t) int64 { return st.Mtim.Nano() }

func TestDestinationPathIsConfined(t *testing.T) {
	volume, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(volume, "away")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"..", "../x", "/x", "away", "away/x", "", tree.StagingName, "a/" + tree.StagingName + "/b",
	} {
		if _, err := tree.OpenDestination(volume, path, "run", 2); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
	if names, _ := os.ReadDir(elsewhere); len(names) != 0 {
		t.Errorf("outside are %v", names)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	volume := t.TempDir()
	for _, name := range []string{"other", "run", "run.x.abc"} {
		write(t, volume, tree.StagingName+"/"+name+"/7", "left")
		write(t, volume, tree.StagingName+"/"+name+"/directory/8", "left")
		write(t, volume, tree.StagingName+"/"+name+"/journal", "left")
	}
	d := destination(t, volume, ".")
	if names, _ := os.ReadDir(filepath.Join(volume, tree.StagingName)); len(names) != 1 {
		t.Errorf("there are %v", names)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(volume); len(names) != 0 {
		t.Errorf("after closing there are %v", names)
	}
}

// commit writes a whole file.
func commit(t *testing.T, d *tree.Destination, number uint64, e tree.Entry, content string) {
	t.Helper()
	f, err := d.Stage(number, &e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The second half first.
	half := len(content) / 2
	for _, part := range []struct {
		text string
		at   int
	}{{content[half:], half}, {content[:half], 0}} {
		if _, err := f.WriteAt([]byte(part.text), int64(part.at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Commit(&e); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesReplaceWhatIsThere(t *testing.T) {
	file := tree.Entry{Path: "name", Type: tree.File, Mode: 0o640, Size: 7, Modified: 5}
	symlink := tree.Entry{Path: "name", Type: tree.Symlink, Mode: 0o777, Target: "target", Modified: 6}
	directory := tree.Entry{Path: "name", Type: tree.Directory, Mode: 0o750, Modified: 7}
	makers := map[string]func(name string) error{
		"Nothing":   func(string) error { return nil },
		"File":      func(name string) error { return os.WriteFile(name, []byte("other"), 0o600) },
		"Link":      func(name string) error { return os.Symlink("/etc/passwd", name) },
		"Directory": func(name string) error { return os.Mkdir(name, 0o500) },
		"FIFO":      func(name string) error { return unix.Mkfifo(name, 0o600) },
	}
	for kind, e := range map[string]tree.Entry{"File": file, "Link": symlink, "Directory": directory} {
		for there, make := range makers {
			t.Run(fmt.Sprintf("%sFor%s", kind, there), func(t *testing.T) {
				volume := t.TempDir()
				name := filepath.Join(volume, "name")
				if err := make(name); err != nil {
					t.Fatal(err)
				}
				d := destination(t, volume, ".")
				needed, err := d.Look(&e)
				refuse := there == "FIFO" || there == "Directory" && kind != "Directory"
				if refuse {
					if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE) ||
						!strings.Contains(err.Error(), `"name"`) {
						t.Errorf("looking ends with %v", err)
					}
					return
				}
				if err != nil || needed != (kind == "File") {
					t.Fatalf("looking ends with %v, %v", needed, err)
				}
				if needed {
					commit(t, d, 1, e, "content")
				}
				if err := d.Finish(); err != nil {
					t.Fatal(err)
				}
				entries, err := walk(t, open(t, volume, "."))
				if err != nil || len(entries) != 2 {
					t.Fatalf("there are %v, %v", entries, err)
				}
				got := *entries[1]
				if got.Path != e.Path || got.Type != e.Type || got.Mode != e.Mode || got.Size != e.Size ||
					got.Modified != e.Modified || got.Target != e.Target {
					t.Errorf("there is %+v", got)
				}
			})
		}
	}
}

func TestUnchanged(t *testing.T) {
	volume := t.TempDir()
	e := tree.Entry{Path: "name", Type: tree.File, Mode: 0o640, Size: 7, Modified: 5}
	d := destination(t, volume, ".")
	commit(t, d, 1, e, "content")
	tests := map[string]struct {
		change func(*tree.Entry)
		needed bool
	}{
		"Same":      {func(*tree.Entry) {}, false},
		"OtherMode": {func(e *tree.Entry) { e.Mode = 0o400 }, false},
		"OtherSize": {func(e *tree.Entry) { e.Size = 8 }, true},
		"OtherTime": {func(e *tree.Entry) { e.Modified++ }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := e
			test.change(&changed)
			if got := look(t, d, changed); got != test.needed {
				t.Errorf("needed is %v", got)
			}
			info, err := os.Stat(filepath.Join(volume, "name"))
			if err != nil {
				t.Fatal(err)
			}
			if !test.needed && uint32(info.Mode().Perm()) != changed.Mode {
				t.Errorf("the mode is %v", info.Mode())
			}
		})
	}
}

// More directories than the list of them buffers, deep ones and read-only ones among them.
func TestManyDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes thousands of directories")
	}
	volume := t.TempDir()
	d := destination(t, volume, ".")
	look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755, Modified: 1})
	deep := strings.Repeat("d", 200)
	want := map[string]int64{".": 1}
	for i := range 1000 {
		path := fmt.Sprintf("%05d%s", i, deep)
		want[path] = int64(2 * i)
		look(t, d, tree.Entry{Path: path, Type: tree.Directory, Mode: 0o500, Modified: int64(2 * i)})
		inner := path + "/" + deep
		want[inner] = int64(2*i + 1)
		look(t, d, tree.Entry{Path: inner, Type: tree.Directory, Mode: 0o555, Modified: int64(2*i + 1)})
	}
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	entries, err := walk(t, open(t, volume, "."))
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%d directories, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Modified != want[e.Path] || e.Path != "." && e.Mode&0o700 != 0o500 {
			t.Errorf("%q has time %d and mode %o", e.Path, e.Modified, e.Mode)
		}
	}
}

func TestNotWritable(t *testing.T) {
	volume := t.TempDir()
	for dir := volume; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(volume, 0o555); err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() {
		_, err := tree.OpenDestination(volume, ".", "run", 2)
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE) {
			t.Errorf("opening ends with %v", err)
		}
	})
}

// What belongs to someone else may be writable all the same, but its attributes are not ours.
func TestAttributesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of someone else")
	}
	volume := t.TempDir()
	for dir := volume; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() {
		d := destination(t, volume, ".")
		look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o700, Modified: 1})
		look(t, d, tree.Entry{Path: "own", Type: tree.Directory, Mode: 0o700, Modified: 1, UID: 65532, GID: 65532})
		if err := d.Finish(); err != nil {
			t.Error(err)
			return
		}
		omitted := d.Omissions().ToWire()
		if len(omitted) != 1 || omitted[0].What != tree.OmittedAttributes || omitted[0].Count != 1 ||
			omitted[0].Examples[0] != "." {
			t.Errorf("omissions are %v", omitted)
		}
	})
}
