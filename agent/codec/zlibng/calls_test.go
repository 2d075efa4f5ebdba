// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zlibng

import (
	"testing"
	"time"
)

// TestCallTime: calls count by what worked in them.
func TestCallTime(t *testing.T) {
	before := CallTime()
	software, hardware := OtherLevel, NoObstacle
	count(&software, time.Now().Add(-time.Hour))
	if got := CallTime() - before; got != 0 {
		t.Errorf("a call that software answered counts for %v", got)
	}
	count(&hardware, time.Now().Add(-time.Hour))
	if got := CallTime() - before; got < time.Hour {
		t.Errorf("a call of an hour counts for %v", got)
	}
}
