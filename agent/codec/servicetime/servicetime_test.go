// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetime_test

import (
	"math"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec/servicetime"
)

// TestWaiting: what calls wait does not count, once one of their length did not wait.
func TestWaiting(t *testing.T) {
	var m servicetime.Meter
	now := time.Unix(1e9, 0)
	add := func(o servicetime.Operation, length int, took time.Duration) time.Duration {
		before := m.Total()
		m.Add(o, length, took, now)
		return m.Total() - before
	}
	for i, c := range []struct {
		operation  servicetime.Operation
		length     int
		took, want time.Duration
	}{
		{servicetime.Deflate, 1 << 20, 100, 100},
		{servicetime.Deflate, 1 << 20, 900, 100},
		{servicetime.Deflate, 1 << 20, 80, 80},
		{servicetime.Deflate, 3 << 19, 900, 120}, // half as much again
		{servicetime.Deflate, 1 << 10, 70, 70},   // of another length
		{servicetime.Inflate, 1 << 20, 900, 900}, // another operation
		{servicetime.Deflate, 0, 5, 5},
		{servicetime.Deflate, -1, 0, 1},
		{servicetime.Deflate, math.MaxInt, 1000, 1000},
	} {
		if got := add(c.operation, c.length, c.took); got != c.want {
			t.Errorf("%d: a call of %v counts for %v, want %v", i, c.took, got, c.want)
		}
	}
}

// TestWindow: an accelerator that has become slower is charged as what it is, after two windows at most, and one that
// is idle for long is not forgotten.
func TestWindow(t *testing.T) {
	var m servicetime.Meter
	now := time.Unix(1e9, 0)
	m.Add(servicetime.Deflate, 4096, 100, now)
	last := time.Duration(0)
	for range 130 {
		now = now.Add(time.Second)
		before := m.Total()
		m.Add(servicetime.Deflate, 4096, 200, now)
		last = m.Total() - before
	}
	if last != 200 {
		t.Errorf("after two minutes a call counts for %v", last)
	}
	now = now.Add(24 * time.Hour)
	before := m.Total()
	m.Add(servicetime.Deflate, 4096, 900, now)
	if got := m.Total() - before; got != 200 {
		t.Errorf("after a day a call counts for %v", got)
	}
}
