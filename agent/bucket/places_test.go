// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"io/fs"
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
	// server is nil for a claim.
	server *objectstoretest.Server
}

// inPlaces runs a test with object stores, and with claims, which are made by at.
func inPlaces(t *testing.T, test func(t *testing.T, at func(*testing.T) place)) {
	t.Helper()
	t.Run("ObjectStore", func(t *testing.T) {
		test(t, func(t *testing.T) place {
			t.Helper()
			server := objectstoretest.New(t, "")
			left := func() ([]string, int) { return keys(server), server.Uploads() }
			return place{open(t, server, prefix), left, server}
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
			return place{store, func() (files []string, uploads int) {
				return leftIn(t, filepath.Join(volume, "some/path"))
			}, nil}
		})
	})
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
			if _, err := exec.LookPath("zstd"); err != nil {
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
