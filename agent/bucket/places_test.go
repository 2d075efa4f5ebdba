// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

// place is where archives are kept.
type place struct {
	bucket.Store
	// left returns the files beside archives, and how many uploads are under way.
	left func() (files []string, uploads int)
	// all returns what rests, objects or files, by name, and damage changes an object behind the back of the store.
	all    func() map[string][]byte
	damage func(object string, change func([]byte) []byte)
	// server is nil for a claim.
	server *objectstoretest.Server
}

// moves is called by tests that move tens of megabytes, some of them several times: the race detector makes minutes of
// them, and the concurrency is that of the tests beside them.
func moves(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("make test-unit runs it without the race detector")
	}
}

// inPlaces runs a test with object stores, and with claims, which are made by at.
func inPlaces(t *testing.T, test func(t *testing.T, at func(*testing.T) place)) {
	t.Helper()
	t.Run("ObjectStore", func(t *testing.T) {
		test(t, func(t *testing.T) place {
			t.Helper()
			server := objectstoretest.New(t, "")
			return place{
				Store: open(t, server, prefix), server: server,
				left: func() ([]string, int) { return keys(server), server.Uploads() },
				all: func() map[string][]byte {
					rests := make(map[string][]byte)
					for _, key := range server.Keys() {
						rests[key] = stored(server, key)
					}
					return rests
				},
				damage: func(object string, change func([]byte) []byte) { server.Damage(prefix+"/"+object, change) },
			}
		})
	})
	t.Run("Claim", func(t *testing.T) {
		if raced {
			t.Skip("the tests of package claimstore and those with an ObjectStore have the race detector")
		}
		test(t, func(t *testing.T) place {
			t.Helper()
			volume := t.TempDir()
			store, err := claimstore.Open(volume, "some/path")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			root := filepath.Join(volume, "some/path")
			return place{
				Store: store,
				left:  func() (files []string, uploads int) { return leftIn(t, root) },
				all:   func() map[string][]byte { return filesIn(t, root) },
				damage: func(object string, change func([]byte) []byte) {
					b, err := os.ReadFile(filepath.Join(root, object))
					if err == nil {
						err = os.WriteFile(filepath.Join(root, object), change(b), 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				},
			}
		})
	})
}

// filesIn are all files in a directory, with what they have.
func filesIn(t *testing.T, root string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leftIn is what is left in the directory of a claim.
func leftIn(t *testing.T, root string) (files []string, uploads int) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch inside, reserved := strings.CutPrefix(name, bucket.Reserved+"/"); {
		case !reserved && name != "." && name != bucket.Reserved:
			files = append(files, name)
		case strings.HasPrefix(inside, "writing/"):
			uploads++
		case e.IsDir() && strings.HasPrefix(inside, "archives/journal/"):
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, uploads
}

// lookPath finds a program of others. Where CARGO_READERS is all, every one has to be there.
func lookPath(t *testing.T, program string) (path string, found bool) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("CARGO_READERS") == "all" {
		t.Fatalf("this machine has no %s, and CARGO_READERS is all", program)
	}
	return path, err == nil
}

// untar has tar extract archives, one after the other, into a directory.
func untar(t *testing.T, store bucket.Store, names []string) string {
	t.Helper()
	into := t.TempDir()
	for _, name := range names {
		args := []string{"-x", "-p", "-f", "-", "-C", into}
		switch path.Ext(name) {
		case ".gz":
			args = append(args, "-z")
		case ".zst":
			if _, found := lookPath(t, "zstd"); !found {
				t.Skip("there is no zstd")
			}
			args = append(args, "--zstd")
		}
		c := exec.CommandContext(t.Context(), "tar", args...)
		c.Stdin = bytes.NewReader(read(t, store, bucket.Reserved+"/archives/"+name))
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("tar of %s: %v: %s", name, err, out)
		}
	}
	return into
}
