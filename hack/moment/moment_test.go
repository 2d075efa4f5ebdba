// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	whole := func(a, b, c uint64) map[string]string {
		return map[string]string{"a": record("a", a), "b": record("b", b), "c": record("c", c)}
	}
	without := whole(3, 3, 3)
	delete(without, "b")
	cut := whole(3, 3, 3)
	cut["b"] = cut["b"][:20]
	mixed := whole(3, 3, 3)
	mixed["c"] = record("b", 3)
	long := whole(3, 3, 3)
	long["c"] += "more"
	tests := map[string]struct {
		files map[string]string
		round uint64
		torn  bool
	}{
		"between rounds":       {whole(3, 3, 3), 3, false},
		"after a":              {whole(4, 3, 3), 3, false},
		"after b":              {whole(4, 4, 3), 3, false},
		"c is newer":           {whole(3, 3, 4), 0, true},
		"b is newer":           {whole(3, 4, 3), 0, true},
		"c is two rounds old":  {whole(5, 4, 3), 0, true},
		"a is two rounds new":  {whole(5, 3, 3), 0, true},
		"the numbers' ends":    {whole(1<<64-1, 1<<64-1, 1<<64-2), 1<<64 - 2, false},
		"b is missing":         {without, 0, true},
		"b is cut":             {cut, 0, true},
		"c is b":               {mixed, 0, true},
		"c has something more": {long, 0, true},
		"nothing":              {nil, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			round, err := Check(dir)
			torn := (*TornError)(nil)
			if round != tt.round || errors.As(err, &torn) != tt.torn || (err != nil) != tt.torn {
				t.Errorf("Check = %d, %v; want %d, torn: %t", round, err, tt.round, tt.torn)
			}
		})
	}
}

// Whenever the writer is stopped, its files are of one moment, and it goes on from there.
func TestWriteIsOfOneMoment(t *testing.T) {
	dir := t.TempDir()
	var before uint64
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Write(ctx, dir, 0) }()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if round, err := read(dir, names[len(names)-1]); err == nil && round > before+3 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the writer does not write")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		round, err := Check(dir)
		if err != nil || round <= before {
			t.Fatalf("Check = %d, %v after round %d", round, err, before)
		}
		before = round
	}
}

// A writer that was killed in a round completes it first.
func TestWriteCompletesRound(t *testing.T) {
	dir := t.TempDir()
	for name, round := range map[string]uint64{"a": 8, "b": 8, "c": 7} {
		if err := replace(dir, name, round); err != nil {
			t.Fatal(err)
		}
	}
	if round, err := begin(dir); err != nil || round != 8 {
		t.Fatalf("begin = %d, %v", round, err)
	}
	if round, err := Check(dir); err != nil || round != 8 {
		t.Errorf("Check = %d, %v", round, err)
	}
}

// Files that are copied one after the other while they are written are not of one moment.
func TestCopyInPiecesIsTorn(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	for round, name := range []string{"a", "b", "c"} {
		for _, n := range names {
			if err := replace(dir, n, uint64(round)); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	torn := (*TornError)(nil)
	if _, err := Check(copied); !errors.As(err, &torn) {
		t.Errorf("Check = %v", err)
	}
}
