// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"slices"
	"testing"
)

func TestBelow(t *testing.T) {
	devices := []device{
		{"/dev/loop0", "/dev/loop5"},
		{"/dev/loop1", "/var/lib/ltg/east/csi/pool.img"},
		{"/dev/loop2", "/var/lib/ltg-other/image"},
		{"/dev/loop3", "/var/lib/ltg/image (deleted)"},
		{"/dev/loop4", "/dev/loop2"},
		{"/dev/loop5", "/dev/loop1"},
	}
	want := []string{"/dev/loop0", "/dev/loop5", "/dev/loop3", "/dev/loop1"}
	if got := below(devices, "/var/lib/ltg"); !slices.Equal(got, want) {
		t.Errorf("below = %q, want %q", got, want)
	}
}
