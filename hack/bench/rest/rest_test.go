// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"slices"
	"testing"
)

// TestRecordsAreDescribed: records have the lengths that they say and types with their shares, and equal seeds make
// equal ones.
func TestRecordsAreDescribed(t *testing.T) {
	g, again := newGenerator(1), newGenerator(1)
	seen := map[byte]int{}
	for range 5000 {
		record := g.append([]byte("before"))[len("before"):]
		if !bytes.Equal(record, again.append(nil)) {
			t.Fatal("equal seeds make other records")
		}
		i := slices.IndexFunc(recordTypes, func(k recordType) bool { return k.number == record[typeAt] })
		kind := recordTypes[i]
		want, says := kind.amountAt()+4*kind.counters+kind.reserve, int(record[0])<<8|int(record[1])
		if len(record) != want || says != want {
			t.Fatalf("a record %s of %d bytes instead of %d", kind.name, len(record), want)
		}
		seen[kind.number]++
	}
	for _, kind := range recordTypes {
		if n := seen[kind.number]; n < 50*kind.share*4/5 || n > 50*kind.share*6/5 {
			t.Errorf("%s: %d of 5000 records", kind.name, n)
		}
	}
}

// TestApplications: what the application compresses is expanded to the same, and what it did not compress is an error.
func TestApplications(t *testing.T) {
	for _, app := range applications() {
		g := newGenerator(2)
		var buf []byte
		for range 2000 {
			record := g.append(nil)
			shrunk, err := app.shrink(nil, record)
			if err != nil {
				t.Fatal(err)
			}
			if len(shrunk) >= len(record) || int(shrunk[0])<<8|int(shrunk[1]) != len(shrunk) {
				t.Fatalf("%s: %d bytes of %d", app.name, len(shrunk), len(record))
			}
			if buf, err = app.restore(buf, shrunk); err != nil || !bytes.Equal(buf[headerLength:], record[headerLength:]) {
				t.Fatalf("%s: another record, %v", app.name, err)
			}
			shrunk = shrunk[:len(shrunk)-1]
			if cut, err := app.restore(nil, shrunk); err == nil && len(cut) == len(record) {
				t.Fatalf("%s: a record that is cut short", app.name)
			}
		}
		// What does not shrink is as it was.
		record := append(g.append(nil)[:headerLength], 1, 2, 3)
		if got, err := app.shrink(nil, describe(record, 0)); err != nil || !bytes.Equal(got, record) {
			t.Errorf("%s: %x, %v", app.name, got, err)
		}
	}
}

// TestStores: every way of keeping the records has the same ones.
func TestStores(t *testing.T) {
	b := &bench{mib: 1}
	dir := t.TempDir()
	if err := b.make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var want [2]uint64
	for i, s := range b.stores {
		for j, what := range []string{readWork, reportWork} {
			a, err := carryOut(context.Background(), s.order(what, dir))
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if i == 0 {
				want[j] = a.Digest
			}
			if a.Digest != want[j] || a.Digest == 0 {
				t.Errorf("%s of %s finds %x instead of %x", what, s.name, a.Digest, want[j])
			}
		}
		if s.stored <= 0 {
			t.Errorf("%s has %d bytes", s.name, s.stored)
		}
	}
}
