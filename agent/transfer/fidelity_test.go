// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/tree"
)

// What is more than names and contents travels: see package tree for the details.
func TestFidelity(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	in := func(path string) string { return filepath.Join(source, path) }
	file(t, source, "dir/file", noise(1, 3<<20), 0o640)
	file(t, source, "plain", []byte("content"), 0o600)
	if err := errors.Join(
		os.Link(in("dir/file"), in("hard")), os.Link(in("plain"), in("dir/zhard")), unix.Mkfifo(in("fifo"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	data := noise(2, 1<<20)
	sparse, err := os.Create(in("sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if _, err := sparse.WriteAt(data, 5<<20+123); err != nil {
		t.Fatal(err)
	}
	if err := sparse.Truncate(32 << 20); err != nil {
		t.Fatal(err)
	}
	err = unix.Setxattr(in("plain"), "user.origin", []byte("here"), 0)
	hasXattrs := !errors.Is(err, unix.ENOTSUP)
	if hasXattrs && err != nil {
		t.Fatal(err)
	}

	for range 2 {
		sent, received := move(t, source, destination)
		if len(sent.GetOmissions()) != 0 || len(received.GetOmissions()) != 0 {
			t.Errorf("omissions are %v and %v", sent.GetOmissions(), received.GetOmissions())
		}
		stat := func(path string) (st unix.Stat_t) {
			if err := unix.Lstat(filepath.Join(destination, path), &st); err != nil {
				t.Fatal(err)
			}
			return st
		}
		for a, b := range map[string]string{"dir/file": "hard", "plain": "dir/zhard"} {
			if stat(a).Ino != stat(b).Ino {
				t.Errorf("%q and %q are two files", a, b)
			}
		}
		if stat("fifo").Mode != unix.S_IFIFO|0o600 {
			t.Errorf("the FIFO has mode %o", stat("fifo").Mode)
		}
		got, err := os.ReadFile(filepath.Join(destination, "sparse"))
		if err != nil {
			t.Fatal(err)
		}
		if want := append(append(make([]byte, 5<<20+123), data...), make([]byte, 26<<20-123)...); !bytes.Equal(got, want) {
			t.Error("the sparse file has other content")
		}
		if st := stat("sparse"); st.Blocks*512 > 2<<20 {
			t.Errorf("the sparse file takes %d bytes", st.Blocks*512)
		}
		value := make([]byte, 10)
		if n, err := unix.Getxattr(filepath.Join(destination, "plain"), "user.origin", value); hasXattrs && (err != nil ||
			string(value[:n]) != "here") {
			t.Errorf("the attribute is %q, %v", value[:max(n, 0)], err)
		}
	}
}

// A path that is too long for the kernel is counted and named, and everything beside it arrives.
func TestPathTooLong(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "z", noise(1, 3<<20), 0o600)
	fd, err := unix.Open(source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// 21 directories make 4,199 bytes; the last one that moves makes 3,999.
	for range 21 {
		name := strings.Repeat("d", 199)
		link := unix.Symlinkat("target", fd, "link")
		if err := errors.Join(link, unix.Mkdirat(fd, name, 0o755)); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	for _, mirror := range []bool{false, true} {
		sent, received := move(t, source, destination, filtered(t, mirror, nil, nil))
		o := sent.GetOmissions()
		if len(o) != 1 || o[0].What != tree.OmittedPath || o[0].Count != 1 || len(o[0].Examples) != 1 ||
			!strings.HasPrefix(o[0].Examples[0], "ddd") {
			t.Errorf("omissions are %v", o)
		}
		if o := received.GetOmissions(); len(o) != 0 {
			t.Errorf("omissions of the receiver are %v", o)
		}
		from, to := walked(t, source), walked(t, destination)
		if !slices.Equal(from, to) || len(to) != 1+20+21+1 {
			t.Errorf("there are %d entries instead of %d", len(to), len(from))
		}
	}
}

// walked describes the entries that a walk finds, at paths that listing cannot open.
func walked(t testing.TB, root string) (all []string) {
	t.Helper()
	s, err := tree.OpenSource(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Walk(t.Context(), func(e *tree.Entry) error {
		all = append(all, fmt.Sprintf("%q %d %o %d %d %q", e.Path, e.Type, e.Mode, e.Size, e.Modified, e.Target))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
