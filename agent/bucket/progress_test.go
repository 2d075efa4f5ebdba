// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/send"
)

// TestProgressOfLargeFile: what has arrived of a large file is reported before all of it has, and once.
func TestProgressOfLargeFile(t *testing.T) {
	const size = 40 << 20
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(2, size)})
	for name, change := range map[string]func(*bucket.WriteOptions){
		"as an object": func(*bucket.WriteOptions) {}, "in an archive": archived(codec.None, 256<<20),
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			var report *send.Report
			var most atomic.Uint64
			server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && r.URL.Query().Has("partNumber") {
					most.Store(max(most.Load(), report.Report().GetProgress().GetPartialBytes()))
				}
				return false
			})
			end := mustWrite(t, source(t, root, nil), open(t, server, prefix), func(o *bucket.WriteOptions) {
				change(o)
				o.Streams, report = 1, o.Report
			})
			if got := most.Load(); got < size/4 || got > size {
				t.Errorf("%d bytes of %d were reported before the file was complete", got, int64(size))
			}
			if end.GetPartialBytes() != 0 || end.GetBytes() != size {
				t.Errorf("at the end: %v", end)
			}
		})
	}
}
