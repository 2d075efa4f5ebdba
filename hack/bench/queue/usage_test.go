// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestUsage(t *testing.T) {
	one, err := usageOf(os.Getpid())
	if err != nil || one.cpu < 0 || ownCPU() <= 0 {
		t.Errorf("%v, %v, %v", one, ownCPU(), err)
	}
	group, err := syscall.Getpgid(0)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := usageOfGroup(group); err != nil || all.cpu < one.cpu {
		t.Errorf("the group used %v, one of it %v: %v", all, one, err)
	}
	if u := (usage{3, 20, 10}).minus(usage{1, 5, 4}); u != (usage{2, 15, 6}) {
		t.Error(u)
	}
}

func TestParse(t *testing.T) {
	stat := "77 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 100 50 30 20 20 0 1 0 99"
	if cpu, err := parseCPU(stat); err != nil || cpu != 2 {
		t.Errorf("%v, %v", cpu, err)
	}
	for _, bad := range []string{"", "1 (a) S 1 2", "77 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 30 20 20"} {
		if _, err := parseCPU(bad); !errors.Is(err, errForm) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	u, err := parseIO("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 4096\n")
	if err != nil || u != (usage{read: 4096, written: 8192}) {
		t.Errorf("%v, %v", u, err)
	}
	for _, bad := range []string{"", "write_bytes: many\n", "rchar: 1\n"} {
		if _, err := parseIO(bad); !errors.Is(err, errForm) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSizeOf(t *testing.T) {
	directory := t.TempDir()
	for name, size := range map[string]int{"1.blk": 10, "sub/2.blk": 20, "sub/3.idx": 40} {
		path := filepath.Join(directory, name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, make([]byte, size), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := sizeOf(directory, ".blk"); err != nil || n != 30 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := sizeOf(directory, ".blk", ".idx"); err != nil || n != 70 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestHolds(t *testing.T) {
	for speed, want := range map[float64]bool{48e6: true, 60e6: true, 70e6: false, 20e6: false, 900e6: false} {
		if holds(speed) != want {
			t.Errorf("%v", speed)
		}
	}
}
