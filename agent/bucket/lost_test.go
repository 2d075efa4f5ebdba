// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
)

// TestCut has a server that keeps what it has got of a put that broke off, as versitygw does.
func TestCut(t *testing.T) {
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	root := t.TempDir()
	put(t, root, map[string]string{"begun": "before", "empty": "before", "whole": "before"})
	mustWrite(t, source(t, root, nil), store, nil)
	sized := func(n int) objectstore.PutOptions {
		return objectstore.PutOptions{Metadata: map[string]string{"lighterage-version": fmt.Sprintf("%d-1-1", n)}}
	}
	for name, content := range map[string]string{
		"begun": "hal", "new": "hal", "empty": "", "nothing": "", "whole": "other",
	} {
		_, err := store.Put(t.Context(), name, strings.NewReader(content), int64(len(content)), sized(5))
		if err != nil {
			t.Fatal(err)
		}
	}
	s := bucket.NewSource(t.Context(), store, nil)
	read := map[string]error{}
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type == tree.File {
			read[e.Path] = s.ReadAt(e, make([]byte, e.Size), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(read) != 3 || read["whole"] != nil || !errors.Is(read["begun"], tree.ErrChanged) ||
		!errors.Is(read["new"], tree.ErrChanged) {
		t.Errorf("read: %v", read)
	}
	if got := count(s, tree.OmittedObject); got != 2 {
		t.Errorf("omissions %v, want 2", s.Omissions().ToWire())
	}
	// The next attempt puts all of them.
	mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	paths, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if !slices.Equal(paths, []string{".", "begun", "empty", "whole"}) || contents["begun"] != "before" ||
		contents["empty"] != "before" || contents["whole"] != "before" {
		t.Errorf("the bucket has %q", contents)
	}
}

// TestLostUpload has a server that acknowledges the completion of an upload which it lost, as versitygw does after a
// crash.
func TestLostUpload(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(3, 9<<20)})
	for _, verify := range []bool{true, false} {
		server := objectstoretest.New(t, "")
		completions := 0
		server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
				return false
			}
			switch completions++; completions {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			case 2:
				_, _ = fmt.Fprint(w, `<CompleteMultipartUploadResult><Bucket>cargo</Bucket>`+
					`<ETag>"0123456789abcdef0123456789abcdef-2"</ETag></CompleteMultipartUploadResult>`)
				return true
			}
			return false
		})
		store := open(t, server, prefix)
		mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Verify = verify })
		if got := keys(server); !slices.Equal(got, []string{"large"}) || completions != 3 || server.Uploads() != 0 {
			t.Errorf("verify %v: the bucket has %q after %d completions, and %d uploads", verify, got, completions,
				server.Uploads())
		}
	}
}
