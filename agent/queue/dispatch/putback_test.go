// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeaseOfLost: who has a message that the stream has lost, as by a power failure, does not have the one that was
// put in its place. The stream's files are put back to where they were, and those of the leases are not: each is synced
// at its own time.
func TestLeaseOfLost(t *testing.T) {
	t.Parallel()
	c := config{directory: t.TempDir()}
	stream, former := filepath.Join(c.directory, "jetstream", "$G", "streams", "orders"), t.TempDir()
	q := start(t, c)
	q.put("", "a")
	q.stop()
	if err := os.CopyFS(former, os.DirFS(stream)); err != nil {
		t.Fatal(err)
	}
	q = start(t, c)
	q.put("", "b")
	r := q.expect(long, "a", "b").receipts()
	q.stop()
	if err := os.RemoveAll(stream); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(stream, os.DirFS(former)); err != nil {
		t.Fatal(err)
	}
	q = start(t, c)
	q.put("", "c")
	q.results(q.hub.Acknowledge(t.Context(), r[1:]), expired)
	if got := q.expect(long, "c"); got[0].GetSequence() != 2 || got[0].GetDeliveries() != 1 {
		t.Errorf("the message in the place of the lost one is %v", got)
	}
	q.results(q.hub.Acknowledge(t.Context(), r), done, expired)
	q.await(1, 0)
}
