// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
)

// countingOrigin counts the bytes that are read of files.
type countingOrigin struct {
	*tree.Source
	read atomic.Int64
}

func (o *countingOrigin) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	o.read.Add(int64(len(p)))
	return o.Source.ReadAt(e, p, offset)
}

// While an archive is completed, a part of the next one is packed.
func TestPacksWhileAnArchiveEnds(t *testing.T) {
	const file, perArchive, part = 1 << 20, 15, 8 << 20
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	root := t.TempDir()
	files := map[string]string{}
	for i := range 2 * perArchive {
		files[fmt.Sprintf("f%02d", i)] = random(uint64(i), file)
	}
	put(t, root, files)
	origin := &countingOrigin{Source: source(t, root, nil)}
	var first sync.Once
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			first.Do(func() {
				for range 1000 {
					if origin.read.Load() >= perArchive*file+part-file {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Errorf("%d bytes were read when the first archive was to be completed", origin.read.Load())
			})
		}
		return false
	})
	mustWrite(t, origin, store, archived(codec.None, (perArchive+1)*file))
	server.Intercept(nil)
	if _, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil)); !maps.Equal(contents, files) {
		t.Errorf("%d files came back", len(contents))
	}
}

// TestArchiveOfWholeBlocks: the end of a tar may be that of a block, if the next file has no space in the archive.
func TestArchiveOfWholeBlocks(t *testing.T) {
	for header := int64(512); header <= 4096; header += 512 {
		store := open(t, objectstoretest.New(t, ""), prefix)
		root := t.TempDir()
		content := random(1, int(2<<20-1024-header))
		files := map[string]string{"first": content, "second": content}
		put(t, root, files)
		mustWrite(t, source(t, root, nil), store, archived(codec.None, 3<<20))
		if _, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil)); !maps.Equal(contents, files) {
			t.Errorf("a header of %d bytes: %d files came back", header, len(contents))
		}
	}
}
