// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"math"
	"runtime/debug"
	"testing"
)

// An agent that moves data lowers the collector's limit and never raises it.
func TestMemoryLimit(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	for _, test := range []struct {
		mode        string
		given, want int64
	}{
		{"send", math.MaxInt64, 208 << 20},
		{"receive", 460 << 20, 208 << 20},
		{"receive", 100 << 20, 100 << 20},
		{"local", math.MaxInt64, 416 << 20},
		{"node", 460 << 20, 460 << 20},
		{"queue", 460 << 20, 460 << 20},
	} {
		debug.SetMemoryLimit(test.given)
		// Without a configuration it ends at once.
		if code := run(
			t.Context(), []string{test.mode, "--config-dir", t.TempDir()}, io.Discard, io.Discard,
		); code != exitConfig {
			t.Errorf("%s: exit code %d", test.mode, code)
		}
		if got := debug.SetMemoryLimit(-1); got != test.want {
			t.Errorf("%s with a limit of %d: %d instead of %d", test.mode, test.given, got, test.want)
		}
	}
}
