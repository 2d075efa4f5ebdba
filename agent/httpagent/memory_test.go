// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"runtime"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: maxPercent, 1 << 20: maxPercent, 5 << 20: 600, 8 << 20: 400, 16 << 20: 200, 31 << 20: 100, 60 << 20: 50,
		400 << 20: 50,
	} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes: %d", live, got)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	for live, want := range map[uint64]int64{
		0: smallLimit, 50 << 20: smallLimit, 64 << 20: 112 << 20, 400 << 20: 528 << 20,
	} {
		if got := memoryLimit(live); got != want {
			t.Errorf("%d bytes: %d", live, got)
		}
	}
}

func TestNextCollection(t *testing.T) {
	for range 3 {
		collected := nextCollection()
		select {
		case <-collected:
			t.Log("collected on its own account")
		default:
		}
		runtime.GC()
		select {
		case <-collected:
		case <-time.After(time.Minute):
			t.Fatal("a collection was not noticed")
		}
	}
}
