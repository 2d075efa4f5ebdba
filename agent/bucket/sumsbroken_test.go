// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
)

// endingStore ends an attempt before an object is put, or removed.
type endingStore struct {
	bucket.Store
	put, removed string
}

func (s *endingStore) Put(
	ctx context.Context, name string, body io.ReaderAt, size int64, o objectstore.PutOptions,
) (string, error) {
	if name == s.put {
		return "", errBroken
	}
	return s.Store.Put(ctx, name, body, size, o)
}

func (s *endingStore) Delete(ctx context.Context, name string) error {
	if name == s.removed {
		return errBroken
	}
	return s.Store.Delete(ctx, name)
}

// TestSumsOfEitherIndex ends attempts between the checksums and the index of an encrypted prefix: a scrub without an
// identity has those of the index that is there, and the next attempt knows those of all archives.
func TestSumsOfEitherIndex(t *testing.T) {
	moves(t)
	const sums = bucket.Reserved + "/SHA256SUMS"
	for what, c := range map[string]struct {
		ends     endingStore
		replaced bool
	}{
		"before the index":         {endingStore{put: bucket.IndexName}, false},
		"behind the index":         {endingStore{put: sums}, true},
		"behind the checksums":     {endingStore{removed: sums + ".next"}, true},
		"before the new checksums": {endingStore{put: sums + ".next"}, false},
	} {
		for _, first := range []bool{true, false} {
			t.Run(what, func(t *testing.T) {
				i := anIdentity(t)
				store, root := open(t, objectstoretest.New(t, ""), prefix), sealedTree(t)
				options := and(archived(codec.Deflate, 2<<20), encrypted(1, i.Recipient()))
				if !first {
					mustWrite(t, source(t, root, nil), store, options)
					put(t, root, map[string]string{"later": random(3, 3<<20), "text": "other lines"})
				}
				ends := c.ends
				ends.Store = store
				if _, err := write(t, source(t, root, nil), &ends, options); !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
				if c.replaced || !first {
					report, err := scrubbed(t, store, false)
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range report.GetOmissions() {
						// Archives that the index does not name, not yet or not any more, have none.
						if first || o.GetWhat() != scrub.NoChecksum {
							t.Errorf("a scrub finds %v", o)
						}
					}
				}
				p := mustWrite(t, source(t, root, nil), store, and(options, attempt(2)))
				if c.replaced && p.GetUnchangedFiles() != p.GetFiles() {
					t.Errorf("%v: files were packed again", p)
				}
				restored(t, root, bucket.Decrypted(store, []age.Identity{i}))
				finds(t, "at the end", store, false, nil)
				if _, err := store.Head(t.Context(), sums+".next"); !errors.Is(err, objectstore.ErrNotFound) {
					t.Errorf("checksums of the next index are left: %v", err)
				}
			})
		}
	}
}

// uploading is limited, and fails when there is an upload.
type uploading struct {
	*limited
	server *objectstoretest.Server
}

func (u *uploading) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	err := u.limited.ReadAt(e, p, offset)
	for end := time.Now().Add(time.Minute); err != nil && u.server.Uploads() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return err
}

// TestEncryptionMismatchAbortsNothing has writers that cannot read an index leave the uploads and journals of who can.
func TestEncryptionMismatchAbortsNothing(t *testing.T) {
	moves(t)
	i := anIdentity(t)
	server := objectstoretest.New(t, "")
	store, root := open(t, server, prefix), t.TempDir()
	put(t, root, map[string]string{"a": random(1, 12<<20)})
	options := and(archived(codec.Deflate, 25<<20), encrypted(1, i.Recipient()))
	mustWrite(t, source(t, root, nil), store, options)
	put(t, root, map[string]string{"b": random(2, 12<<20), "c": random(3, 12<<20), "d": random(4, 12<<20)})
	broken := &uploading{&limited{Source: source(t, root, nil)}, server}
	broken.left.Store(20 << 20) // Within an archive, behind its first part.
	if _, err := write(t, broken, store, options); !errors.Is(err, errLimited) {
		t.Fatal(err)
	}
	if _, err := store.Create(t.Context(), bucket.IndexName, nil); err != nil {
		t.Fatal(err)
	}
	keys, uploads := server.Keys(), server.Uploads()
	if uploads < 2 {
		t.Fatalf("%d uploads", uploads)
	}
	for what, change := range map[string]func(*bucket.WriteOptions){
		"files": nil, "archives": archived(codec.Deflate, 2<<20), "a form": resting(formsAtRest[0]),
		"another key": and(archived(codec.Deflate, 2<<20), encrypted(2, i.Recipient())),
	} {
		if _, err := write(t, source(t, root, nil), store, change); !failure.Is(err, mismatch) {
			t.Errorf("%s: %v", what, err)
		}
		if n := server.Uploads(); n != uploads || !slices.Equal(server.Keys(), keys) {
			t.Errorf("%s: %d uploads of %d are left, and %q", what, n, uploads, server.Keys())
		}
	}
	mustWrite(t, source(t, root, nil), store, options)
	restored(t, root, bucket.Decrypted(store, []age.Identity{i}))
}
