// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func write(t *testing.T, root, path, content string) {
	t.Helper()
	name := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, volume, path string) *tree.Source {
	t.Helper()
	s, err := tree.OpenSource(volume, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func walk(t *testing.T, s *tree.Source) ([]*tree.Entry, error) {
	t.Helper()
	var all []*tree.Entry
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		all = append(all, e)
		return nil
	})
	return all, err
}

// unprivileged runs f without the rights of root on files.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread ends with the goroutine, because it is not unlocked.
		runtime.LockOSThread()
		if err := unix.Setfsgid(65532); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Setfsuid(65532); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestWalkOrderAndOmissions(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"b/x", "b/a/y", "b-c", "a", tree.StagingName + "/run-1/7", "c/" + tree.StagingName + "/7",
	} {
		write(t, root, path, path)
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "z1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "z2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	want := map[string]uint64{tree.OmittedSocket: 1, tree.OmittedStaging: 1}
	if os.Geteuid() == 0 && unix.Mknod(filepath.Join(root, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) == nil {
		want[tree.OmittedDevice] = 1
	}

	s := open(t, root, ".")
	entries, err := walk(t, s)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, e.Path)
		if link := e.Path == "z1" || e.Path == "z2"; (e.Type == tree.HardLink) != link || link && e.Target != "a" {
			t.Errorf("%q is of type %d with target %q", e.Path, e.Type, e.Target)
		}
		if (e.Type == tree.FIFO) != (e.Path == "fifo") {
			t.Errorf("%q is of type %d", e.Path, e.Type)
		}
	}
	if want := []string{
		".", "a", "b", "b/a", "b/a/y", "b/x", "b-c", "c", "c/" + tree.StagingName, "c/" + tree.StagingName + "/7", "etc",
		"fifo", "z1", "z2",
	}; !slices.Equal(paths, want) {
		t.Errorf("the walk finds %q", paths)
	}
	if !slices.IsSortedFunc(paths, tree.Compare) {
		t.Errorf("%q are not in order", paths)
	}
	got := map[string]uint64{}
	for _, o := range s.Omissions().ToWire() {
		got[o.What] = o.Count
	}
	for what, n := range want {
		if got[what] != n {
			t.Errorf("%s: %d instead of %d", what, got[what], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("omissions are %v", got)
	}
}

func TestOmissionsKeepFewExamples(t *testing.T) {
	var o tree.Omissions
	for range 10 {
		o.Add(tree.OmittedFIFO, strings.Repeat("\xffé", 5000))
	}
	all := o.ToWire()
	if len(all) != 1 || all[0].Count != 10 || len(all[0].Examples) != 5 || len(all[0].Examples[0]) > 2000 {
		t.Errorf("omissions are %v", all)
	}
}

func TestSourceThatCannotBeOpened(t *testing.T) {
	root := t.TempDir()
	write(t, root, "file", "")
	if err := os.Symlink("/", filepath.Join(root, "away")); err != nil {
		t.Fatal(err)
	}
	// The source of a Transfer is immutable.
	for _, path := range []string{"missing", "file", "file/x", "away", "../" + filepath.Base(root)} {
		_, err := tree.OpenSource(root, path)
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) ||
			!strings.Contains(err.Error(), "make a new Transfer or CompressionTrial with") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// unreadableFix names a field and an annotation of the API; it must change with them.
const unreadableFix = "set spec.podTemplate.securityContext.runAsUser to 0 or to the files' owner, " +
	`which the namespace must allow with the annotation lighterage.dev/allow-privileged-agents: "true"`

func TestUnreadable(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	parent := filepath.Dir(root)
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, root, "dir/secret", "secret")
	write(t, root, "lost+found/1", "lost")
	if err := os.Chmod(filepath.Join(root, "dir/secret"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "lost+found"), 0); err != nil {
		t.Fatal(err)
	}
	s := open(t, root, ".")
	unprivileged(t, func() {
		entries, err := walk(t, s)
		if err != nil || len(entries) != 3 {
			t.Errorf("the walk finds %v, %v", entries, err)
			return
		}
		omitted := s.Omissions().ToWire()
		if !slices.ContainsFunc(omitted, func(o *wirev1.Omission) bool {
			return o.What == tree.OmittedUnreadable && slices.Equal(o.Examples, []string{"lost+found"})
		}) {
			t.Errorf("omissions are %v", omitted)
		}
		err = s.ReadAt(entries[2], make([]byte, 6), 0)
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE) ||
			!strings.HasSuffix(err.Error(), `"dir/secret" (permission denied): `+unreadableFix) {
			t.Errorf("reading ends with %v", err)
		}
	})
	if err := os.Chmod(filepath.Join(root, "dir"), 0); err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() {
		if _, err := walk(t, s); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE) {
			t.Errorf("the walk ends with %v", err)
		}
	})
	for _, name := range []string{"dir", "lost+found"} {
		if err := os.Chmod(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadAtNoticesChanges(t *testing.T) {
	changes := map[string]func(name string) error{
		"Grown":   func(name string) error { return os.WriteFile(name, []byte("longer than before"), 0o600) },
		"Shorter": func(name string) error { return os.Truncate(name, 3) },
		"Removed": os.Remove,
		"Replaced": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("CONTENT"), 0o600))
		},
		"Link":      func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name)) },
		"FIFO":      func(name string) error { return errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)) },
		"Directory": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
		"ContentOnly": func(name string) error {
			was, err := os.Stat(name)
			return errors.Join(err, os.WriteFile(name, []byte("CONTENT"), 0o600), os.Chtimes(name, was.ModTime(), was.ModTime()))
		},
		"ParentIsLink": func(name string) error {
			dir := filepath.Dir(name)
			return errors.Join(os.Rename(dir, dir+"-moved"), os.Symlink(dir+"-moved", dir))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "dir/file", "content")
			s := open(t, root, ".")
			entries, err := walk(t, s)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 7)
			if err := s.ReadAt(entries[2], p, 0); err != nil || string(p) != "content" {
				t.Fatalf("before: %q, %v", p, err)
			}
			if err := change(filepath.Join(root, "dir/file")); err != nil {
				t.Fatal(err)
			}
			if err := s.ReadAt(entries[2], p, 0); !errors.Is(err, tree.ErrChanged) {
				t.Errorf("after: %v", err)
			}
		})
	}
}
