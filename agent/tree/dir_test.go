// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Both ways of opening behave alike: the one for kernels without openat2 runs nowhere else in the tests.
func TestOpenFollowsNoLinks(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a/b/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, target := range map[string]string{"link": "a", "a/link": "b", "a/b/link": "file"} {
		if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	d := dir(fd)
	ways := map[string]func(string, int, uint32) (int, error){
		"ByElement": func(path string, flags int, mode uint32) (int, error) {
			return d.openByElement(path, flags|unix.O_NOFOLLOW, mode)
		},
		"Open": d.open,
	}
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			for path, want := range map[string]bool{
				".": true, "a": true, "a/b": true, "a/b/file": true,
				"link": false, "link/b": false, "link/b/file": false, "a/link": false, "a/link/file": false, "a/b/link": false,
				"missing": false, "a/b/file/x": false,
			} {
				fd, err := open(path, unix.O_RDONLY, 0)
				if (err == nil) != want {
					t.Errorf("%q: %v", path, err)
				}
				if err == nil {
					_ = unix.Close(fd)
				}
			}
		})
	}
}
