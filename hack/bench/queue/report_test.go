// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReport: medians are compared, and what does not meet its bound is a miss.
func TestReport(t *testing.T) {
	var turns []turn
	for round := range 3 {
		for _, size := range sizes {
			for _, name := range contenders {
				x := turn{contender: name, size: size, messages: 10, stored: int64(10 * size), put: phase{rate: 1000, cpu: 50e-6, server: 40e-6}}
				switch {
				case name == zstd && size == 12000:
					x.put.rate, x.stored = 1199, int64(4*size)
				case name == zstd || name == deflate:
					x.put.rate, x.put.cpu, x.stored = 1200, 39e-6, int64(4*size)
				}
				if round == 0 {
					x.put.rate, x.put.cpu = 1e6, 1 // noise
				}
				turns = append(turns, x)
			}
		}
	}
	r := newReport(extents["quick"], turns, time.Minute)
	verdicts := make(map[string]string)
	for _, target := range r.Targets {
		verdicts[target.Name] = target.Line()
	}
	for name, want := range map[string]string{
		"puts-deflate-12000": "target puts-deflate-12000 1.20 >=1.20 ok", "cpu-deflate-12000": "target cpu-deflate-12000 0.78 <=0.80 ok",
		"stored-deflate-12000": "target stored-deflate-12000 0.40 <=0.50 ok", "puts-zstd-12000": "target puts-zstd-12000 1.20 >=1.20 miss",
		"cpu-zstd-12000": "target cpu-zstd-12000 1.00 <=0.80 miss", "puts-zstd-200000": "target puts-zstd-200000 1.20 >=1.20 ok",
	} {
		if verdicts[name] != want {
			t.Errorf("got %q, want %q", verdicts[name], want)
		}
	}
	if len(verdicts) != 18 {
		t.Errorf("%d targets", len(verdicts))
	}
	directory := t.TempDir()
	if err := r.write(directory); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"queue.md": "| 12000 | queue, zstd | 1199 | 50.0 (40.0) |", "queue.svg": "200000 bytes"} {
		if b, err := os.ReadFile(filepath.Join(directory, file)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
}

func TestCPU(t *testing.T) {
	if used, err := cpuOf(os.Getpid()); err != nil || used < 0 || ownCPU() <= 0 {
		t.Errorf("%v, %v, %v", used, ownCPU(), err)
	}
}
