// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

var errBroken = errors.New("the attempt breaks")

// brokenStore has a note or a part of an archive fail when the note of another part is there.
type brokenStore struct {
	bucket.Store
	note, part, behind int
	noted              chan struct{}
}

func (s *brokenStore) Put(
	ctx context.Context, name string, body io.ReaderAt, size int64, o objectstore.PutOptions,
) (string, error) {
	is := func(number int) bool {
		return strings.Contains(name, "/journal/") && strings.HasSuffix(name, fmt.Sprintf("/%05d", number))
	}
	if is(s.note) {
		return "", s.fail(ctx)
	}
	etag, err := s.Store.Put(ctx, name, body, size, o)
	if err == nil && is(s.behind) {
		close(s.noted)
	}
	return etag, err
}

func (s *brokenStore) PutPart(
	ctx context.Context, u objectstore.Upload, number int, offset int64, body io.ReaderAt, size int64,
) (objectstore.Part, error) {
	if number == s.part {
		return objectstore.Part{}, s.fail(ctx)
	}
	return s.Store.PutPart(ctx, u, number, offset, body, size)
}

func (s *brokenStore) fail(ctx context.Context) error {
	select {
	case <-s.noted:
		return errBroken
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestArchivesOfBrokenAttempts has an attempt put the third part of an archive and not note the second one. The next
// attempt fills that with other files. What the first one noted of the third is not true any more then, even where all
// parts are of one length.
func TestArchivesOfBrokenAttempts(t *testing.T) {
	moves(t)
	for _, id := range []codec.ID{codec.None, codec.Zstd} {
		t.Run(id.String(), func(t *testing.T) {
			root, files := t.TempDir(), map[string]string{}
			for i := range 60 {
				files[fmt.Sprintf("f%02d", i)] = random(uint64(i), 700<<10)
			}
			put(t, root, files)
			store := open(t, objectstoretest.New(t, ""), prefix)
			first := &brokenStore{Store: store, note: 2, behind: 3, noted: make(chan struct{})}
			if _, err := write(t, source(t, root, nil), first, archived(id, 0)); !errors.Is(err, errBroken) {
				t.Fatalf("the first attempt: %v", err)
			}
			put(t, root, map[string]string{"f15+": random(99, 700<<10)})
			second := &brokenStore{Store: store, part: 3, behind: 2, noted: make(chan struct{})}
			if _, err := write(t, source(t, root, nil), second, and(archived(id, 0), attempt(2))); !errors.Is(err, errBroken) {
				t.Fatalf("the second attempt: %v", err)
			}
			mustWrite(t, source(t, root, nil), store, and(archived(id, 0), attempt(3)))
			restored(t, root, store)
			names, _ := archivesOf(t, store)
			_, _, want := entries(t, source(t, root, nil))
			_, _, got := entries(t, source(t, untar(t, store, names), nil))
			for name, content := range want {
				if got[name] != content {
					t.Errorf("tar extracts another %s", name)
				}
			}
		})
	}
}
