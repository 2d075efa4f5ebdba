// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"testing"
	"time"
)

// TestBatchesEnd: no client keeps a batch for ever by saying now and then something of it, and none keeps all.
func TestBatchesEnd(t *testing.T) {
	now := time.Unix(1000, 0)
	b := batches{clock: func() time.Time { return now }}
	one, other := &conn{}, &conn{}
	// put returns why it is refused.
	put := func(owner *conn, id string, sequence int, commit bool) string {
		header := fmt.Sprintf("NATS/1.0\r\nNats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n", id, sequence)
		if commit {
			header += "Nats-Batch-Commit: 1\r\n"
		}
		op := &operation{header: []byte(header + "\r\n"), payload: make([]byte, 1000)}
		why := b.refuses(op, owner)
		if why == "" {
			b.note(op, owner)
		}
		return why
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("after %v: %q, want %q", now.Sub(time.Unix(1000, 0)), got, want)
		}
	}
	for i := range maxOwnBatches {
		expect(put(one, fmt.Sprint(i), 1, false), "")
	}
	expect(put(one, "more", 1, false), tooManyOwnBatches)
	expect(put(other, "more", 1, false), "")
	expect(put(other, "more", 2, true), "")
	sequence := 1
	for begun := now; now.Sub(begun) <= longestBatch-batchLife; {
		now = now.Add(batchLife - time.Second)
		sequence++
		for i := range maxOwnBatches {
			expect(put(one, fmt.Sprint(i), sequence, false), "")
		}
	}
	expect(put(one, "more", 1, false), tooManyOwnBatches)
	now = time.Unix(1000, 0).Add(longestBatch + time.Second)
	expect(put(one, "0", sequence+1, false), tooSlowBatch)
	expect(put(one, "0", sequence+2, true), tooSlowBatch)
	// The server hears no more of them, and closes them.
	now = now.Add(batchLife)
	expect(put(one, "more", 1, false), "")
	if len(b.open) != 1 || b.bytes < 1000 || b.bytes > 1200 {
		t.Errorf("%d are open, with %d bytes", len(b.open), b.bytes)
	}
}

// TestBehind: the server is asked what it holds only while it may hold something.
func TestBehind(t *testing.T) {
	c, other := &conn{}, &conn{}
	f := &Front{conns: map[*conn]struct{}{c: {}, other: {}}}
	other.greeted.Store(true)
	other.listening.Store(true)
	for _, test := range []struct{ greeted, listening, want bool }{
		{false, false, false},
		{true, false, true},
		{true, true, false},
	} {
		c.greeted.Store(test.greeted)
		c.listening.Store(test.listening)
		if got := f.behind(); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
