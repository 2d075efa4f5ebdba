// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func linked(ino uint64, names int) *unix.Stat_t {
	var st unix.Stat_t
	st.Ino = ino
	for range names {
		st.Nlink++ // Its type differs between architectures.
	}
	return &st
}

func TestLinkTable(t *testing.T) {
	table := newLinkTable()
	for i := range 100 {
		dir := fmt.Sprintf("dir%d", i/10)
		if first, kept := table.name(dir, fmt.Sprint(i), linked(uint64(i), 3)); first != "" || !kept {
			t.Fatalf("name %d follows %q, %v", i, first, kept)
		}
	}
	for round := range 2 {
		for i := range 100 {
			first, _ := table.name("elsewhere", fmt.Sprint(round, i), linked(uint64(i), 3))
			if want := fmt.Sprintf("dir%d/%d", i/10, i); first != want {
				t.Fatalf("name %d follows %q instead of %q", i, first, want)
			}
		}
	}
	if len(table.first) != 0 || len(table.text) != 0 {
		t.Errorf("%d files and %d bytes are remembered in the end", len(table.first), len(table.text))
	}
	if first, kept := table.name(Root, "x", linked(1, 2)); first != "" || !kept {
		t.Error("a file that was forgotten is remembered")
	}
	if first, _ := table.name("y", "y", linked(1, 2)); first != "x" {
		t.Errorf("the first name at the root is %q", first)
	}
}

func TestLinkTableIsBounded(t *testing.T) {
	table := newLinkTable()
	table.limit, table.bytes = 1000, 8<<10
	refused := 0
	for i := range 5000 {
		if _, kept := table.name("d", fmt.Sprint(i), linked(uint64(i), 2)); !kept {
			refused++
		}
	}
	if refused == 0 || len(table.text) > table.bytes || len(table.first) > table.limit {
		t.Errorf("%d are refused, %d bytes and %d files remembered", refused, len(table.text), len(table.first))
	}
}

// One file that is never complete does not keep the names of all others.
func TestLinkTableForgets(t *testing.T) {
	table := newLinkTable()
	table.bytes = 8 << 10
	table.name("d", "kept", linked(1, 2))
	for i := range 100_000 {
		st := linked(uint64(i)+2, 2)
		if _, kept := table.name("d", fmt.Sprint(i), st); !kept {
			t.Fatalf("name %d is not remembered", i)
		}
		if first, _ := table.name("e", fmt.Sprint(i), st); first != "d/"+fmt.Sprint(i) {
			t.Fatalf("name %d follows %q", i, first)
		}
	}
	if first, _ := table.name("z", "z", linked(1, 2)); first != "d/kept" {
		t.Errorf("the first one follows %q", first)
	}
}

// What each of many entries costs while they are walked.
func TestMemoryPerEntry(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes hundreds of thousands of entries")
	}
	const count = 1 << 18
	measure := func(what string, limit uint64, make func() any) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make()
		runtime.GC()
		runtime.ReadMemStats(&after)
		per := (after.HeapAlloc - before.HeapAlloc) / count
		runtime.KeepAlive(kept)
		t.Logf("%s: %d bytes for each of %d", what, per, count)
		if per > limit {
			t.Errorf("%s: %d bytes for each; at most %d are meant", what, per, limit)
		}
	}
	measure("files with several names", 96, func() any {
		table := newLinkTable()
		for i := range count {
			if _, kept := table.name(
				fmt.Sprintf("some/directory/%d", i/1000), fmt.Sprintf("file-%08d", i), linked(uint64(i), 2),
			); !kept {
				t.Fatalf("name %d is not remembered", i)
			}
		}
		return table
	})
	measure("names in a directory", 32, func() any {
		var n names
		for i := range count {
			n.add(fmt.Sprintf("file-%08d", i))
		}
		return n
	})
}
