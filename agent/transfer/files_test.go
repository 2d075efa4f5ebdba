// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/tree"
)

// file writes a file with a time in the past.
func file(t testing.TB, root, path string, content []byte, mode uint32) {
	t.Helper()
	name := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	age(t, name, int64(len(content)))
}

func age(t testing.TB, name string, seed int64) {
	t.Helper()
	at := unix.NsecToTimespec(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).UnixNano() + seed*1_000_000_007)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, root, path, target string) {
	t.Helper()
	name := filepath.Join(root, path)
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	age(t, name, int64(len(target)))
}

// noise returns bytes that do not compress, the same for a seed.
func noise(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// text returns bytes that compress well.
func text(seed, n int) []byte {
	line := fmt.Sprintf("%d account balance transfer ledger cluster volume journal record status\n", seed)
	return []byte(strings.Repeat(line, n/len(line)+1)[:n])
}

// mixedTree makes a tree with a bit of everything and returns how many files it has.
func mixedTree(t testing.TB, root string) (files int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		path := fmt.Sprintf("src/%d/%d/file-%d.txt", i%7, i%31, i)
		size := r.IntN(6000)
		if i%5 == 0 {
			file(t, root, path, noise(uint64(i), size), 0o644)
		} else {
			file(t, root, path, text(i, size), 0o640)
		}
	}
	file(t, root, "large", text(1, 10<<20+12345), 0o600)
	file(t, root, "exact", text(2, 2<<20), 0o444)
	file(t, root, "noise", noise(3, 3<<20+1), 0o7755)
	file(t, root, "empty", nil, 0o600)
	file(t, root, "bytes\xff\xfe\n name", []byte("not UTF-8"), 0o600)
	file(t, root, "sorted/a", []byte("1"), 0o600)
	file(t, root, "sorted.a", []byte("2"), 0o600)
	file(t, root, "sorted0", []byte("3"), 0o600)
	file(t, root, "src/"+tree.StagingName+"/x", []byte("a name like any other here"), 0o600)
	if err := os.MkdirAll(filepath.Join(root, "empty-dir/nested"), 0o700); err != nil {
		t.Fatal(err)
	}
	link(t, root, "absolute", "/etc/passwd")
	link(t, root, "dangling", "nowhere/at/all")
	link(t, root, "src/up", "../large")
	for _, dir := range []string{"src/3", "src", "empty-dir/nested", "empty-dir", "sorted", "."} {
		if err := unix.Chmod(filepath.Join(root, dir), 0o2751); err != nil {
			t.Fatal(err)
		}
		age(t, filepath.Join(root, dir), int64(len(dir)))
	}
	return 2000 + 9
}

// listing describes every entry of a tree: type, mode, time, content.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	piece := make([]byte, 256<<10) // large files are not held in memory for it
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		content := ""
		switch d.Type() {
		case 0:
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			sum := sha256.New()
			n, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, piece)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			content = fmt.Sprintf("%d %x", n, sum.Sum(nil))
		case fs.ModeSymlink:
			if content, err = os.Readlink(name); err != nil {
				return err
			}
		}
		path, err := filepath.Rel(root, name)
		all[path] = fmt.Sprintf("%o %d %s", st.Mode, st.Mtim.Nano(), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
