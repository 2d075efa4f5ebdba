// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/lighterage/lighterage/controllers/memory"
)

func TestKeep(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	for name, test := range map[string]struct {
		limit, own string
		want       int64
		fails      bool
	}{
		"a limit":      {limit: "536870912", want: 483183819},
		"none":         {want: math.MaxInt64},
		"somebody's":   {limit: "536870912", own: "100MiB", want: math.MaxInt64},
		"not a number": {limit: "512Mi", want: math.MaxInt64, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv(memory.LimitVariable, test.limit)
			t.Setenv("GOMEMLIMIT", test.own)
			if err := memory.Keep(); (err != nil) != test.fails {
				t.Fatal(err)
			}
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
