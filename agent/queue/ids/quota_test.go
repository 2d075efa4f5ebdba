// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/ids"
)

// quota is one with a clock, and a stream that stores what is admitted.
type quota struct {
	*ids.Quota
	now  time.Time
	last uint64
}

func newQuota(t *testing.T, o ids.QuotaOptions) *quota {
	t.Helper()
	q := &quota{now: time.Unix(1_800_000_000, 0), last: o.Last}
	o.Now = func() time.Time { return q.now }
	var err error
	if q.Quota, err = ids.NewQuota(o); err != nil {
		t.Fatal(err)
	}
	return q
}

// put admits as many as it can, of which the stream stores some.
func (q *quota) put(n, stored int) (in int) {
	for range n {
		if q.Admit([]byte("1")) != "" {
			break
		}
		in++
	}
	q.last += uint64(min(stored, in))
	q.Turn(q.last)
	return in
}

func (q *quota) pass(d time.Duration) {
	q.now = q.now.Add(d)
	q.Turn(q.last)
}

// TestQuota: what is admitted within any window is no more than the limit, and what is beyond the window makes space.
func TestQuota(t *testing.T) {
	q := newQuota(t, ids.QuotaOptions{Limit: 100, Window: time.Minute})
	if in := q.put(60, 60); in != 60 {
		t.Fatalf("%d of 60 are admitted", in)
	}
	q.pass(30 * time.Second)
	if in := q.put(60, 60); in != 40 {
		t.Errorf("%d are admitted beside 60; the limit is 100", in)
	}
	q.pass(29 * time.Second)
	if in := q.put(1, 1); in != 0 {
		t.Error("one more is admitted within the window")
	}
	q.pass(5 * time.Second)
	if in := q.put(100, 100); in != 60 {
		t.Errorf("%d are admitted when 60 are forgotten", in)
	}
	q.SetWindow(time.Second)
	q.pass(3 * time.Second)
	in, why := q.put(200, 200), q.Admit([]byte("more"))
	if in != 100 || !strings.Contains(why, "shorten duplicateWindow") {
		t.Errorf("%d are admitted with a shorter window; %s", in, why)
	}
	if why := q.Admit(nil); why != "" {
		t.Errorf("a message without an id is refused: %s", why)
	}
}

// TestQuotaOfRefused: duplicates, and what a full queue does not store, use nothing up for ever.
func TestQuotaOfRefused(t *testing.T) {
	q := newQuota(t, ids.QuotaOptions{Limit: 100, Window: time.Minute})
	for range 20 {
		q.put(90, 1)
		q.pass(time.Second)
	}
	if in := q.put(50, 50); in != 50 {
		t.Errorf("%d of 50 are admitted; 20 are stored", in)
	}
	q.pass(time.Second)
	q.pass(time.Second)
	// Messages without ids are none of these, but cannot be told apart when more was admitted than is allowed.
	q.last += 1000
	q.pass(time.Second)
	if !q.Full() {
		t.Error("more is admitted than the stream may have stored")
	}
}

// TestQuotaUnknownStream: while nobody knows what the stream stored, all that is admitted counts.
func TestQuotaUnknownStream(t *testing.T) {
	q := newQuota(t, ids.QuotaOptions{Limit: 100, Window: time.Minute})
	for range 10 {
		for range 10 {
			q.Admit([]byte("1"))
		}
		q.now = q.now.Add(time.Second)
		q.Turn(0)
	}
	if !q.Full() {
		t.Error("more than the limit would be admitted")
	}
}

// TestQuotaAfterRestart: the bound holds over a restart, after which the server remembers what is stored.
func TestQuotaAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passed")
	q := newQuota(t, ids.QuotaOptions{Limit: 100, Window: time.Minute, Path: path})
	q.put(80, 80)
	if err := q.Write(true); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		messages uint64
		after    time.Duration
		want     int
	}{
		{80, 0, 20},            // all are there
		{10, 0, 90},            // of which 70 have left
		{80, time.Hour, 100},   // too long ago
		{5000, 0, 20},          // beside others
		{80, -time.Second, 20}, // the clock was set back
	} {
		again := &quota{now: q.now.Add(test.after), last: q.last}
		var err error
		again.Quota, err = ids.NewQuota(ids.QuotaOptions{
			Limit: 100, Window: time.Minute, Path: path, Messages: test.messages, Last: q.last,
			Now: func() time.Time { return again.now },
		})
		if err != nil {
			t.Fatal(err)
		}
		if in := again.put(200, 200); in != test.want {
			t.Errorf("%d messages after %v: %d are admitted; want %d", test.messages, test.after, in, test.want)
		}
	}
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := ids.NewQuota(ids.QuotaOptions{Limit: 100, Window: time.Minute, Path: path})
	if err == nil || damaged == nil || damaged.Full() {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestNoQuota: without one everything is admitted.
func TestNoQuota(t *testing.T) {
	var none *ids.Quota
	none.SetWindow(time.Second)
	if none.Admit([]byte("1")) != "" || none.Full() || none.Counts() || none.Write(true) != nil {
		t.Error("a quota that is none counts")
	}
}

func TestCost(t *testing.T) {
	for length, want := range map[int]int64{0: 1, 64: 1, 65: 2, 224: 2, 225: 3, 65536: 411} {
		if got := ids.Cost(bytes.Repeat([]byte("x"), length)); got != want {
			t.Errorf("an id of %d bytes counts as %d; want %d", length, got, want)
		}
	}
}

func FuzzQuotaFile(f *testing.F) {
	f.Add([]byte(`[{"until":1800000000000,"count":5,"before":7}]`))
	f.Add([]byte(`[{"until":1,"count":-5}]`))
	path := filepath.Join(f.TempDir(), "passed")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := ids.NewQuota(ids.QuotaOptions{Limit: 10, Window: time.Minute, Path: path, Messages: 3, Last: 5})
		if q == nil || err != nil && q.Counts() {
			t.Fatal("what cannot be read counts")
		}
		q.Admit([]byte("1"))
		q.Turn(6)
		if err := q.Write(true); err != nil {
			t.Fatal(err)
		}
	})
}
