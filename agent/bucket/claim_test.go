// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const writer = prefix + "/.lighterage/writer"

// TestSuperseded has the next attempt take the prefix over, before the index of the one before is written or after:
// that one removes neither the claim nor objects of the next, and writes no index.
func TestSuperseded(t *testing.T) {
	for name, c := range map[string]struct {
		// until is the name whose put is the last request of the time before.
		until   string
		indexed bool
	}{
		"before the index": {until: "/b"}, "after the index": {until: "/.lighterage/index", indexed: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, map[string]string{"a": "1", "b": "22"})
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			server.Add(prefix+"/theirs", []byte("of the next attempt"), time.Now())
			server.Add("next", []byte(`{"transfer":"bank/nightly (1)","runId":"r","attempt":2}`), time.Now())
			taken := false
			server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if taken && strings.HasSuffix(r.URL.Path, writer) && r.Method != http.MethodDelete {
					r.URL.Path = "/" + objectstoretest.Bucket + "/next"
				}
				taken = taken || r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, c.until)
				return false
			})
			_, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE) {
				t.Errorf("a superseded attempt: %v", err)
			}
			all := server.Keys()
			if !slices.Contains(all, writer) || !slices.Contains(all, prefix+"/theirs") {
				t.Errorf("only %q are left", all)
			}
			if got := slices.Contains(all, prefix+"/.lighterage/index"); got != c.indexed {
				t.Errorf("an index: %v, want %v", got, c.indexed)
			}
		})
	}
}
