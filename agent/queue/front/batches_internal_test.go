// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatches: clients have a bounded number of batches open, with a bounded number of bytes, and keep none for ever by
// saying now and then something of it.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batches
		put := func(id string, sequence, size int, commit bool) string {
			header := fmt.Sprintf("NATS/1.0\r\nNats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n", id, sequence)
			if commit {
				header += "Nats-Batch-Commit: 1\r\n"
			}
			return b.admit([]byte(header+"\r\n"), size)
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		begun := time.Now()
		most := maxBatchBytes / minBatchBytes
		for i := range most {
			expect(put(fmt.Sprint(i), 1, 1000, false), "")
		}
		expect(put("more", 1, 1000, false), tooManyBatches)
		expect(put("unknown", 2, 1000, false), "") // which the server rejects
		expect(put("0", 2, minBatchBytes, false), tooManyBatches)
		expect(put("0", 2, 1000, true), "")
		expect(put("0", 1, 1000, false), "")
		expect(put("0", 2, minBatchBytes/2, false), "")
		sequence := 2
		for time.Since(begun) <= longestBatch-batchLife {
			time.Sleep(batchLife - time.Second)
			sequence++
			for i := range most {
				expect(put(fmt.Sprint(i), sequence, 10, false), "")
			}
		}
		expect(put("more", 1, 1000, false), tooManyBatches)
		time.Sleep(longestBatch + time.Second - time.Since(begun))
		expect(put("1", sequence+1, 10, false), longBatch)
		expect(put("1", sequence+2, 10, true), longBatch)
		// The server hears no more of them, and closes them.
		time.Sleep(batchLife)
		expect(put("more", 1, maxBatchBytes-10, false), "")
		expect(put("more", 2, 11, false), tooManyBatches)
		expect(put("more", 2, 10, false), "")
		if len(b.open) != 1 {
			t.Errorf("%d are open", len(b.open))
		}
	})
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
