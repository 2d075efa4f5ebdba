// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// fill runs the mode and returns its exit code.
func fill(ctx context.Context, directory, size string) int {
	return run(ctx, []string{"fill", "--directory", directory, "--bytes", size}, io.Discard, io.Discard)
}

// TestFill: it writes as much as it is told, the same each time, one half of which compresses well.
func TestFill(t *testing.T) {
	const size = fillFile + 3
	first, second := t.TempDir(), t.TempDir()
	for _, directory := range []string{first, second} {
		if code := fill(t.Context(), directory, strconv.Itoa(size)); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
	}
	most := map[float64]float64{3: 10, 0.9: 1.01} // by the least
	total := 0
	for name, least := range map[string]float64{
		"text-00000": 3, "random-00000": 0.9, "text-00001": 0, "random-00001": 0,
	} {
		content, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		total += len(content)
		again, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(content, again) {
			t.Errorf("%s differs from one run to the next: %v", name, err)
		}
		if len(content) < fillBlock {
			continue
		}
		if ratio := float64(fillBlock) / float64(deflated(t, content[:fillBlock])); ratio < least || ratio > most[least] {
			t.Errorf("%s: ratio %.2f", name, ratio)
		}
	}
	if total != size {
		t.Errorf("%d bytes", total)
	}
}

func TestFillFails(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, got := range map[string][2]int{
		"no directory":      {fill(t.Context(), "", "1"), exitConfig},
		"nothing":           {fill(t.Context(), t.TempDir(), "0"), exitConfig},
		"too much":          {fill(t.Context(), t.TempDir(), strconv.FormatInt(maxFill+1, 10)), exitConfig},
		"no such directory": {fill(t.Context(), filepath.Join(t.TempDir(), "none"), "1"), exitFailed},
		"stopped":           {fill(stopped, t.TempDir(), "1"), exitFailed},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: exit code %d, want %d", name, got[0], got[1])
		}
	}
}

func deflated(t *testing.T, content []byte) int {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}
