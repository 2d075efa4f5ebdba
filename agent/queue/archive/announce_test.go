// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"net/http"
	"path"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// TestStoreAnnounced: the index is there before the first range of lines, in a new archive and in one that has lost it,
// and says what has left the queue.
func TestStoreAnnounced(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	var order []string
	refuse := false
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		if refuse && len(order) > 0 {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		order = append(order, path.Base(r.URL.Path))
		return false
	})
	from.put("orders", "one")
	from.put("orders", "two")
	s := from.archived(from.storeArchiver(at, nil), upTo(2))
	if len(order) < 4 || order[0] != "index" || path.Ext(order[1]) != ".lgci" || path.Ext(order[2]) != ".zst" {
		t.Fatalf("put %q", order)
	}
	if err := at.Delete(t.Context(), s.Path+"/index"); err != nil {
		t.Fatal(err)
	}
	from.remove(1)
	from.put("orders", "three")
	order, refuse = nil, true
	from.archived(from.storeArchiver(at, nil), func(s archive.Status) bool { return s.LastError != nil })
	if len(order) != 1 || order[0] != "index" {
		t.Errorf("put %q", order)
	}
	to := newQueue(t, "again", store.Settings{})
	to.restore(to.storeRestorer(at, nil))
	to.expect("again=two")
}
