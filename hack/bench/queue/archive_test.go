// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchiveTurn: every way of archiving restores all, and compression makes archives smaller.
func TestArchiveTurn(t *testing.T) {
	shares := make(map[string]float64)
	for _, way := range archiveWays {
		a, err := archiveAndRestore(t.Context(), way, t.TempDir(), 32_000, 20)
		if err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		if a.Rate <= 0 || a.RestoreRate <= 0 || a.Way != way.name || a.Size != 32_000 {
			t.Errorf("%+v", a)
		}
		shares[way.name] = a.Share
	}
	if shares["none"] < 1 || shares["zstd"] > 0.5 || shares["deflate"] > 0.5 || shares["zstd when put"] > 0.5 {
		t.Errorf("shares %v", shares)
	}
}

// TestArchiveTable: medians, and what compression changes.
func TestArchiveTable(t *testing.T) {
	var all []archived
	for _, size := range archiveSizes {
		for _, noise := range []float64{1, 1000, 2} {
			all = append(
				all, archived{Way: "none", Size: size, Rate: 100 * noise, CPU: 4, RestoreRate: 88, RestoreCPU: 8, Share: 1.01},
			)
			all = append(
				all, archived{Way: "zstd", Size: size, Rate: 50 * noise, CPU: 6, RestoreRate: 27, RestoreCPU: 10, Share: 0.2},
			)
		}
	}
	table := archiveTable(all)
	for _, want := range []string{
		"| message bytes | 4,000 | 32,000 | 1,000,000 | 4,000,000 |", "| archive, MB/s, none | 200 | 200 |",
		"| archive, MB/s, zstd | 100 (-50 %) |",
		"| archive, CPU ms per MB, zstd | 6.00 (+50 %) |", "| archive, bytes by those put, zstd | 0.20 | 0.20 |",
		"| recovery, MB/s, zstd | 27 (-69 %) |",
		"| recovery, CPU ms per MB, none | 8.00 |", "| recovery, MB/s, deflate | - (-) |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("it lacks %q:\n%s", want, table)
		}
	}
	if empty := archiveTable(nil); empty != "" {
		t.Errorf("nothing was measured, and it says %s", empty)
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
}
