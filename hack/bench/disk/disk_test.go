// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import "testing"

func TestHolds(t *testing.T) {
	for speed, want := range map[float64]bool{48e6: true, 60e6: true, 70e6: false, 20e6: false, 900e6: false} {
		if d := (Disk{Measured: speed, speed: 50e6}); d.holds() != want {
			t.Errorf("%v", speed)
		}
	}
}
