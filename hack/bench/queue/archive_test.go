// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
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
	r, err := newReport(extents["quick"], results{archives: all}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| message bytes | 4,000 | 32,000 | 1,000,000 | 4,000,000 |", "| archive, MB/s, none | 200 | 200 |",
		"| archive, MB/s, zstd | 100 (-50 %) |",
		"| archive, CPU ms per MB, zstd | 6.00 (+50 %) |", "| archive, bytes by those put, zstd | 0.20 | 0.20 |",
		"| recovery, MB/s, zstd | 27 (-69 %) |",
		"| recovery, CPU ms per MB, none | 8.00 |", "| recovery, MB/s, deflate | - (-) |",
	} {
		if !strings.Contains(r.Archives, want) {
			t.Errorf("it lacks %q:\n%s", want, r.Archives)
		}
	}
	if empty := archiveTable(nil); empty != "" {
		t.Errorf("nothing was measured, and it says %s", empty)
	}
}
