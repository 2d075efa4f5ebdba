// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const invalidData = wirev1.FailureReason_FAILURE_REASON_INVALID_DATA

// TestLostIndexOfArchives has runs remove nothing when the index that names archives is damaged or gone: they cannot
// know the files that the source does not have any more. Who reads does not take the prefix for an empty one.
func TestLostIndexOfArchives(t *testing.T) { inPlaces(t, lostIndexOfArchives) }

func lostIndexOfArchives(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	plain := archived(codec.Deflate, 1<<20)
	for what, damage := range map[string]func([]byte) []byte{
		"cut":    func(b []byte) []byte { return b[:len(b)/2] },
		"other":  func([]byte) []byte { return []byte("hello") },
		"bits":   func(b []byte) []byte { b[len(b)-6] ^= 0xff; return b },
		"empty":  func([]byte) []byte { return nil },
		"absent": nil,
	} {
		for kind, options := range map[string]func(*bucket.WriteOptions){
			"plain": plain, "encrypted": and(plain, encrypted(1, i.Recipient())),
		} {
			t.Run(what+"/"+kind, func(t *testing.T) {
				root, store := t.TempDir(), at(t)
				put(t, root, map[string]string{"gone": random(1, 2<<20), "stays": random(2, 2<<20)})
				mustWrite(t, source(t, root, nil), store, options)
				if err := os.Remove(filepath.Join(root, "gone")); err != nil {
					t.Fatal(err)
				}
				index := read(t, store, bucket.IndexName)
				if damage == nil {
					if err := store.Delete(t.Context(), bucket.IndexName); err != nil {
						t.Fatal(err)
					}
				} else {
					putIndex(t, store, damage(bytes.Clone(index)))
				}
				names, _ := archivesOf(t, store)
				for how, run := range map[string]struct {
					root   string
					change func(*bucket.WriteOptions)
				}{
					"without delete": {root, nil},
					"delete":         {root, mirrored},
					"delete, filtered": {root, and(mirrored, func(o *bucket.WriteOptions) {
						o.Filter, _ = filter.New(nil, []string{"gone"})
					})},
					"an empty source": {t.TempDir(), mirrored},
					"files":           {root, func(o *bucket.WriteOptions) { o.Archive = nil }},
				} {
					if how == "files" && store.server == nil {
						continue // A claim has archives alone.
					}
					change := options
					if run.change != nil {
						change = and(options, run.change)
					}
					// An encrypted index that cannot be read at all is one of others to who writes files.
					_, err := write(t, source(t, run.root, nil), store, change)
					if !failure.Is(err, invalidData) && (kind == "plain" || !failure.Is(err, mismatch)) {
						t.Errorf("%s: %v", how, err)
					}
					if left, others := archivesOf(t, store); !slices.Equal(left, names) || len(others) > 0 {
						t.Fatalf("%s: %q are left of %q, and %q", how, left, names, others)
					}
				}
				readable := bucket.Store(store)
				if kind == "encrypted" {
					readable = bucket.Decrypted(store, []age.Identity{i})
				}
				if err := walked(t, readable); !failure.Is(err, invalidData) && (kind == "plain" || !failure.Is(err, mismatch)) {
					t.Errorf("reading: %v", err)
				}
				putIndex(t, store, index)
				mustWrite(t, source(t, root, nil), store, options)
				if _, all, _ := entries(t, bucket.NewSource(t.Context(), readable, nil)); all["gone"].Size != 2<<20 {
					t.Errorf("with the index back there is %v", all)
				}
			})
		}
	}
}

// TestLostIndexOfArchive has an archive lose its own index: what the source does not have any more stays, and is there
// again when the index is.
func TestLostIndexOfArchive(t *testing.T) { inPlaces(t, lostIndexOfArchive) }

func lostIndexOfArchive(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root, store := t.TempDir(), at(t)
	put(t, root, map[string]string{"gone": random(1, 1<<20), "stays": random(2, 1<<20)})
	options := archived(codec.Deflate, 0)
	mustWrite(t, source(t, root, nil), store, options)
	if err := os.Remove(filepath.Join(root, "gone")); err != nil {
		t.Fatal(err)
	}
	names, _ := archivesOf(t, store)
	name := tars + "." + names[0] + ".lgci"
	index := read(t, store, name)
	if err := store.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for run := range uint64(2) {
		p := mustWrite(t, source(t, root, nil), store, options)
		if p.GetUnchangedFiles() != run {
			t.Errorf("run %d: %v", run, p)
		}
	}
	_, err := store.Put(t.Context(), name, bytes.NewReader(index), int64(len(index)), objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["gone"] != random(1, 1<<20) || contents["stays"] != random(2, 1<<20) {
		t.Error("the archive was removed, or has another content")
	}
}

func putIndex(t *testing.T, store bucket.Store, content []byte) {
	t.Helper()
	_, err := store.Put(
		t.Context(), bucket.IndexName, bytes.NewReader(content), int64(len(content)), objectstore.PutOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstRunOfArchives reads while the first run has completed archives, and no index: nobody takes what there is
// beside them for all.
func TestFirstRunOfArchives(t *testing.T) { inPlaces(t, firstRunOfArchives) }

func firstRunOfArchives(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root, store := t.TempDir(), at(t)
	put(t, root, map[string]string{"a": random(1, 12<<20), "b": random(2, 12<<20), "c": random(3, 12<<20)})
	broken := &limited{Source: source(t, root, nil)}
	broken.left.Store(30 << 20)
	options := archived(codec.None, 8<<20)
	if _, err := write(t, broken, store, options); !errors.Is(err, errLimited) {
		t.Fatal(err)
	}
	if names, _ := archivesOf(t, store); len(names) == 0 {
		t.Fatal("the attempt has completed no archive")
	}
	if store.server != nil {
		store.server.Add(prefix+"/a", []byte("beside"), time.Now())
	}
	if err := walked(t, store); !failure.Is(err, invalidData) {
		t.Errorf("reading: %v", err)
	}
	mustWrite(t, source(t, root, nil), store, and(options, attempt(2)))
	restored(t, root, store)
}
