// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// made are turns of three rounds in which contenders do as little, but for what is asked.
func made(names []string, change func(*turn)) []turn {
	var turns []turn
	for round := range 3 {
		for _, size := range sizes {
			for _, name := range names {
				p := phase{rate: 1000, cpu: 50e-6, server: 40e-6, written: float64(size), read: 10}
				x := turn{contender: name, size: size, messages: 10, stored: int64(10 * size), put: p, get: p}
				change(&x)
				if round == 0 { // a machine that is slower for everybody
					x.put.rate, x.put.cpu, x.get.rate, x.get.cpu = x.put.rate/7, 7*x.put.cpu, x.get.rate/7, 7*x.get.cpu
				}
				turns = append(turns, x)
			}
		}
	}
	return turns
}

// measured is a run in which that was measured.
func measured(t *testing.T, got results) (*bench, harness.Report) {
	t.Helper()
	b := &bench{Run: &harness.Run{Name: benchmark, Quick: true, Out: t.TempDir()}, extent: quick, results: got}
	r, err := b.report()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return b, r
}

// lines are those of targets, by name.
func lines(targets []harness.Target) map[string]string {
	all := make(map[string]string)
	for _, target := range targets {
		all[target.Name] = target.Line()
	}
	return all
}

// TestReport: rounds are compared, and what does not meet its bound is a miss.
func TestReport(t *testing.T) {
	own := func(x *turn) bool { return x.contender == zstd || x.contender == deflate }
	got := results{diskSpeed: 51e6, missing: []string{"a reason"}}
	got.memory = made(append([]string{broker}, contenders...), func(x *turn) {
		switch {
		case x.contender == zstd && x.size == 12000:
			x.put.rate = 1190
		case own(x):
			x.put.rate, x.put.cpu, x.get.rate, x.get.cpu, x.stored = 1200, 39e-6, 1100, 41e-6, int64(4*x.size)
		}
	})
	got.disk = made(contenders, func(x *turn) {
		if own(x) {
			x.put.rate, x.put.written, x.get.written, x.get.rate = 1300, float64(x.size)/4, float64(x.size)/4, 1290
		}
	})
	b, r := measured(t, got)
	verdicts := lines(r.Targets)
	for name, want := range map[string]string{
		"puts-deflate-12000":      "target puts-deflate-12000 1.20 >=1.20 ok",
		"put-cpu-deflate-12000":   "target put-cpu-deflate-12000 0.78 <=0.80 ok",
		"gets-deflate-12000":      "target gets-deflate-12000 1.10 >=1.20 miss",
		"gets-zstd-3000":          "target gets-zstd-3000 1.10 >=1.20 miss",
		"puts-deflate-5000":       "", // it has none
		"get-cpu-deflate-12000":   "target get-cpu-deflate-12000 0.82 <=0.80 miss",
		"stored-deflate-12000":    "target stored-deflate-12000 0.40 <=0.50 ok",
		"puts-zstd-12000":         "target puts-zstd-12000 1.19 >=1.20 miss",
		"put-cpu-zstd-12000":      "target put-cpu-zstd-12000 1.00 <=0.80 miss",
		"puts-zstd-200000":        "target puts-zstd-200000 1.20 >=1.20 ok",
		"io-zstd-70000":           "target io-zstd-70000 0.25 <=0.50 ok",
		"disk-puts-zstd-70000":    "target disk-puts-zstd-70000 1.30 >=1.30 ok",
		"disk-gets-deflate-70000": "target disk-gets-deflate-70000 1.29 >=1.30 miss",
	} {
		if verdicts[name] != want {
			t.Errorf("got %q, want %q", verdicts[name], want)
		}
	}
	if len(verdicts) != 52 {
		t.Errorf("%d targets", len(verdicts))
	}
	contains(t, b.Out, map[string][]string{
		"queue.md": {
			"| 12000 | queue, zstd | 1190 | 50.0 (40.0) |", "| 3000 | " + broker + " | 1000 |", "(seen: 51 MB/s)",
			"Not run: a reason",
			"| stored bytes, deflate | -60 % |", "| CPU us of put and get, zstd | 80.0 |",
		},
		"queue.svg": {"200,000 bytes", broker, "on a disk of 50 MB/s"},
	})
}

// contains looks for texts in files.
func contains(t *testing.T, directory string, texts map[string][]string) {
	t.Helper()
	for file, all := range texts {
		b, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range all {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
}

// TestReportWithout: what was not run has neither rows nor targets.
func TestReportWithout(t *testing.T) {
	run, r := measured(t, results{memory: made(contenders, func(*turn) {})})
	if len(r.Targets) != 34 {
		t.Errorf("%d targets", len(r.Targets))
	}
	b, err := os.ReadFile(filepath.Join(run.Out, "queue.md"))
	if err != nil || strings.Contains(string(b), "disk is the limit") || strings.Contains(string(b), broker) ||
		strings.Contains(string(b), "A channel") {
		t.Errorf("%v:\n%s", err, b)
	}
}

// TestRatio: larger messages compress better.
func TestRatio(t *testing.T) {
	small, err := ratioOf(3000, codecOf(deflate))
	if err != nil {
		t.Fatal(err)
	}
	large, err := ratioOf(70000, codecOf(deflate))
	if err != nil {
		t.Fatal(err)
	}
	if small <= 0.1 || large <= small || large >= 1 {
		t.Errorf("%v and %v", small, large)
	}
}
