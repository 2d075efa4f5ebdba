// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"
)

func TestParseBusy(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\n": (1 + 20 + 300 + 600000 + 7000000) * 10 * time.Millisecond,
		"cpu 1 1 1 1 1 1 1 1":  50 * time.Millisecond,
		"cpu0 1 1 1 1 1 1 1 1": -1,
		"cpu 1 1 1":            -1,
		"cpu 1 x 1 1 1 1 1 1":  -1,
		"":                     -1,
	} {
		got, err := parseBusy(line)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v", line, got, err)
		}
	}
}
