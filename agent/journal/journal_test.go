// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/journal"
)

var update = flag.Bool("update", false, "write testdata again")

var header = journal.Header{Run: "7f3c", Sender: "bank/ledger", Attempt: 1, ChunkSize: 1 << 20}

func digest(n int64) (d [journal.DigestSize]byte) {
	binary.BigEndian.PutUint64(d[:], uint64(n)*0x9e3779b97f4a7c15)
	return d
}

func digests(first, count int64) [][journal.DigestSize]byte {
	var all [][journal.DigestSize]byte
	for i := range count {
		all = append(all, digest(first+i))
	}
	return all
}

func entry(number uint64) *journal.Entry {
	return &journal.Entry{
		Number: number, Path: fmt.Sprintf("dir/file-%d", number), Size: 1 << 40, Modified: -5,
		Changed: 1_700_000_000_000_000_001, Mode: 0o4640,
	}
}

func add(t testing.TB, j *journal.Journal, number uint64, first, count int64) {
	t.Helper()
	ok, err := j.Add(entry(number), first, digests(first, count))
	if err != nil || !ok {
		t.Fatalf("adding ends with %v, %v", ok, err)
	}
}

func sync(t testing.TB, j *journal.Journal) {
	t.Helper()
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, m *memory) *journal.Journal {
	t.Helper()
	j, err := journal.Create(m, header)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func open(t testing.TB, m *memory) *journal.Journal {
	t.Helper()
	next := header
	next.Attempt++
	j, err := journal.Open(m, next)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// told is all that a journal says.
func told(t testing.TB, j *journal.Journal) map[uint64][]journal.Range {
	t.Helper()
	all := make(map[uint64][]journal.Range)
	j.Numbers(func(n uint64) {
		all[n] = j.Ranges(n)
		var chunks []journal.Range
		for from := int64(0); ; {
			first, safe, err := j.Digests(n, from)
			if err != nil {
				t.Error(err)
			}
			if len(safe) == 0 {
				break
			}
			if want := digests(first, int64(len(safe))); !slices.Equal(want, safe) {
				t.Errorf("chunks from %d of file %d have other digests: %s", first, n, cmp.Diff(want, safe))
			}
			if last := len(chunks) - 1; last >= 0 && chunks[last].First+chunks[last].Count == first {
				chunks[last].Count += int64(len(safe))
			} else {
				chunks = append(chunks, journal.Range{First: first, Count: int64(len(safe))})
			}
			from = first + int64(len(safe))
		}
		if !slices.Equal(chunks, all[n]) {
			t.Errorf("file %d has ranges %v and digests of %v", n, all[n], chunks)
		}
		if e, ok := j.Find(entry(n).Path); !ok || e != *entry(n) {
			t.Errorf("file %d is %+v, %v", n, e, ok)
		}
	})
	return all
}

func TestReopen(t *testing.T) {
	m := newMemory()
	j := create(t, m)
	add(t, j, 1, 0, 3)
	add(t, j, 2, 9000, 5000)
	sync(t, j)
	add(t, j, 1, 7, 1)
	add(t, j, 1, 3, 4)
	if first, safe, err := j.Digests(1, 2); first != 2 || len(safe) != 1 || err != nil {
		t.Errorf("from the middle of a range: %d, %v, %v", first, safe, err)
	}
	add(t, j, 3, 0, 1)
	if err := j.Done(2); err != nil {
		t.Fatal(err)
	}
	sync(t, j)
	want := map[uint64][]journal.Range{1: {{First: 0, Count: 8}}, 3: {{First: 0, Count: 1}}}
	for range 3 {
		j = open(t, m)
		if diff := cmp.Diff(want, told(t, j)); diff != "" {
			t.Error(diff)
		}
	}
	if _, ok := j.Find("dir/file-2"); ok {
		t.Error("a file that is done is unfinished")
	}
	if err := j.Remove(); err != nil || len(m.names) != 0 {
		t.Errorf("removing ends with %v, there are %v", err, m.names)
	}
}

// Power may be lost at any operation, with any part of what was not synced. What was synced is there, and nothing that
// was not recorded.
func TestPowerLoss(t *testing.T) {
	for left := 0; ; left++ {
		m := newMemory()
		synced, recorded := int64(0), int64(0)
		j := create(t, m)
		m.left = left
		err := func() error {
			for i := range int64(7) {
				recorded += 10
				if _, err := j.Add(entry(1), i*10, digests(i*10, 10)); err != nil {
					return err
				}
				if _, err := j.Add(entry(uint64(i+2)), 0, digests(0, 60)); err != nil {
					return err
				}
				if i > 0 {
					if err := j.Done(uint64(i + 1)); err != nil {
						return err
					}
				}
				if err := j.Sync(); err != nil {
					return err
				}
				synced = recorded
			}
			return nil
		}()
		for _, keep := range []int{0, 1, 23, 24, 100, 3000, 1 << 30} {
			after := open(t, m.crash(keep))
			var safe int64
			for n, ranges := range told(t, after) {
				if n == 1 {
					safe = ranges[0].Count
				}
			}
			if safe < synced || safe > recorded {
				t.Errorf("after %d operations %d chunks are safe; %d were synced, %d recorded", left, safe, synced, recorded)
			}
		}
		if err == nil {
			if left < 14 {
				t.Errorf("there were only %d operations", left)
			}
			return
		}
		if !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		if err := j.Sync(); err == nil {
			t.Error("a broken journal syncs")
		}
	}
}

// An old receiver that still lives writes to a file without a name.
func TestFormerWriter(t *testing.T) {
	m := newMemory()
	old := create(t, m)
	add(t, old, 1, 0, 1)
	sync(t, old)
	j := open(t, m)
	add(t, old, 1, 1, 5)
	sync(t, old)
	add(t, j, 1, 6, 1)
	sync(t, j)
	want := map[uint64][]journal.Range{1: {{First: 0, Count: 1}, {First: 6, Count: 1}}}
	if diff := cmp.Diff(want, told(t, open(t, m))); diff != "" {
		t.Error(diff)
	}
}

func TestUntrusted(t *testing.T) {
	m := newMemory()
	j := create(t, m)
	for i := range int64(5) {
		add(t, j, 1, i*3, 3)
		sync(t, j)
	}
	good := m.names[journal.Name].written
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1
		m := newMemory()
		m.names[journal.Name] = &content{written: bad}
		j, err := journal.Open(m, header)
		if err == nil {
			// Only the last batch may be dropped.
			if want := map[uint64][]journal.Range{1: {{First: 0, Count: 12}}}; i < 20 || cmp.Diff(want, told(t, j)) != "" {
				t.Errorf("with byte %d changed it tells %v", i, told(t, j))
			}
			continue
		}
		if !journal.Untrusted(err) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	for i := range good {
		m := newMemory()
		m.names[journal.Name] = &content{written: slices.Clone(good[:i])}
		j, err := journal.Open(m, header)
		if err == nil {
			for _, ranges := range told(t, j) {
				if len(ranges) != 1 || ranges[0].First != 0 || ranges[0].Count%3 != 0 {
					t.Errorf("with %d bytes it tells %v", i, ranges)
				}
			}
		} else if !journal.Untrusted(err) {
			t.Errorf("with %d bytes: %v", i, err)
		}
	}
	for name, test := range map[string]struct {
		change func(h *journal.Header, b []byte)
		want   error
	}{
		"newer":          {func(_ *journal.Header, b []byte) { b[9] = 2 }, journal.ErrVersion},
		"another sender": {func(h *journal.Header, _ []byte) { h.Sender = "bank/other" }, journal.ErrOther},
		"other chunks":   {func(h *journal.Header, _ []byte) { h.ChunkSize = 64 << 10 }, journal.ErrOther},
		"something else": {func(_ *journal.Header, b []byte) { copy(b, "#!/bin/sh\n") }, journal.ErrDamaged},
	} {
		h, b := header, slices.Clone(good)
		test.change(&h, b)
		m := newMemory()
		m.names[journal.Name] = &content{written: b}
		if _, err := journal.Open(m, h); !errors.Is(err, test.want) || !journal.Untrusted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := journal.Open(newMemory(), header); !errors.Is(err, fs.ErrNotExist) || journal.Untrusted(err) {
		t.Errorf("none: %v", err)
	}
}

// Finished files do not make the journal grow.
func TestCompaction(t *testing.T) {
	m := newMemory()
	j := create(t, m)
	add(t, j, 1, 0, 7)
	largest := 0
	for i := range uint64(700) {
		add(t, j, i+2, 0, 256)
		sync(t, j)
		if err := j.Done(i + 2); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(m.names[journal.Name].written))
	}
	sync(t, j)
	if largest > 2<<20 {
		t.Errorf("the journal had %d bytes", largest)
	}
	want := map[uint64][]journal.Range{1: {{First: 0, Count: 7}}}
	if diff := cmp.Diff(want, told(t, open(t, m))); diff != "" {
		t.Error(diff)
	}
}

// More than the journal keeps is not recorded, and what is recorded can be read.
func TestBounds(t *testing.T) {
	m := newMemory()
	j := create(t, m)
	path := strings.Repeat("x", 3000)
	recorded := 0
	for i := range uint64(200_000) {
		e := entry(i)
		e.Path = fmt.Sprint(path, i)
		ok, err := j.Add(e, 0, digests(0, 1))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		recorded++
	}
	sync(t, j)
	if recorded < 5_000 || recorded > 20_000 {
		t.Errorf("%d files were recorded", recorded)
	}
	if n := open(t, m).Len(); n != recorded {
		t.Errorf("%d files were recorded, %d are read", recorded, n)
	}
}

// The form on disk does not change without its version.
func TestVector(t *testing.T) {
	m := newMemory()
	j := create(t, m)
	add(t, j, 1, 0, 2)
	sync(t, j)
	add(t, j, 0x0102030405060708, 5, 1)
	if err := j.Done(1); err != nil {
		t.Fatal(err)
	}
	sync(t, j)
	const name = "testdata/journal-v1.bin"
	got := m.names[journal.Name].written
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("it is written as\n%x, not\n%x", got, want)
	}
	m.names[journal.Name].written = want
	if diff := cmp.Diff(
		map[uint64][]journal.Range{0x0102030405060708: {{First: 5, Count: 1}}}, told(t, open(t, m)),
	); diff != "" {
		t.Error(diff)
	}
}
