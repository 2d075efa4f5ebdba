// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import "testing"

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: maxPercent, 1 << 20: maxPercent, 8 << 20: 400, 16 << 20: 200, 31 << 20: 100, 60 << 20: 50, 400 << 20: 50} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes: %d", live, got)
		}
	}
}
