// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// wanted is the digest of the content manifest of files with these contents, and links.
func wanted(t *testing.T, entries []contents.Entry) []byte {
	t.Helper()
	digest, err := contents.NewDigest(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := digest.Add(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	return digest.Sum()
}

func fileOf(path, content string) contents.Entry {
	return contents.Entry{Path: path, Size: uint64(len(content)), SHA256: sha256.Sum256([]byte(content))}
}

// The digest is of what the origin has, whatever else the prefix holds, and the same whether it is read from a volume,
// from objects or from archives.
func TestDigest(t *testing.T) {
	large := random(1, 9<<20)
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("archived=%v", packed), func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			var form func(*bucket.WriteOptions)
			if packed {
				form = archived(codec.Zstd, 0)
			}
			root := t.TempDir()
			put(t, root, map[string]string{"a/first": "of a former run", "z": "of a former run"})
			if err := os.Link(filepath.Join(root, "a/first"), filepath.Join(root, "a/second")); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, source(t, root, nil), store, form)

			for _, name := range []string{"a/first", "z"} { // a/second is a file of its own now.
				if err := os.Remove(filepath.Join(root, name)); err != nil {
					t.Fatal(err)
				}
			}
			put(t, root, map[string]string{"b/large": large, "b/empty": "", "b.small": "small"})
			if err := os.Symlink("large", filepath.Join(root, "b/link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(filepath.Join(root, "b/large"), filepath.Join(root, "b/name")); err != nil {
				t.Fatal(err)
			}
			origin := source(t, root, nil)
			mustWrite(t, origin, store, form)
			want := wanted(t, []contents.Entry{
				fileOf("a/second", "of a former run"), fileOf("b/empty", ""), fileOf("b/large", large),
				contents.LinkTo("b/link", "large"), fileOf("b/name", large), fileOf("b.small", "small"),
			})
			got, err := bucket.Digest(t.Context(), origin, store)
			if err != nil || !bytes.Equal(got.GetSha256(), want) || got.GetEntries() != 6 || got.GetCpuNanos() == 0 {
				t.Fatalf("%v, %v", got, err)
			}

			// From one store to another.
			to := open(t, objectstoretest.New(t, ""), "another")
			second := bucket.NewSource(t.Context(), store, nil)
			mustWrite(t, second, to, nil)
			got, err = bucket.Digest(t.Context(), second, to)
			if err != nil || got.GetEntries() != 8 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// Nothing is stated that is not so at both ends.
func TestDigestOfWhatDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, root string, server *objectstoretest.Server)
		want   wirev1.FailureReason
	}{
		"another object": {func(t *testing.T, _ string, server *objectstoretest.Server) {
			server.Add(prefix+"/b", []byte("evil!"), time.Now())
		}, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
		"no object": {func(t *testing.T, _ string, server *objectstoretest.Server) {
			if err := open(t, server, prefix).Delete(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
		}, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
		"another file": {func(t *testing.T, root string, _ *objectstoretest.Server) {
			put(t, root, map[string]string{"b": "other"})
		}, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
		"a further file": {func(t *testing.T, root string, _ *objectstoretest.Server) {
			put(t, root, map[string]string{"c": "new"})
		}, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			root := t.TempDir()
			put(t, root, map[string]string{"a": "first", "b": "as it was"})
			origin := source(t, root, nil)
			mustWrite(t, origin, store, nil)
			test.change(t, root, server)
			got, err := bucket.Digest(t.Context(), origin, store)
			if !failure.Is(err, test.want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// changingOrigin has files that change while they are digested.
type changingOrigin struct{ *tree.Source }

func (changingOrigin) Digest(*tree.Entry, func() error) (int64, [sha256.Size]byte, error) {
	return 0, [sha256.Size]byte{}, tree.ErrChanged
}

func TestDigestOfWhatChanges(t *testing.T) {
	store := open(t, objectstoretest.New(t, ""), prefix)
	root := t.TempDir()
	put(t, root, map[string]string{"a": "first"})
	origin := source(t, root, nil)
	mustWrite(t, origin, store, nil)
	_, err := bucket.Digest(t.Context(), changingOrigin{origin}, store)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) {
		t.Error(err)
	}
}
