// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zlibng

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec/servicetime"
)

// TestCallTime: calls count by what worked in them.
func TestCallTime(t *testing.T) {
	before := CallTime()
	software, hardware := OtherLevel, NoObstacle
	count(software, servicetime.Deflate, 1, time.Now().Add(-time.Hour))
	if got := CallTime() - before; got != 0 {
		t.Errorf("a call that software answered counts for %v", got)
	}
	count(hardware, servicetime.Deflate, 1, time.Now().Add(-time.Hour))
	if got := CallTime() - before; got < time.Hour {
		t.Errorf("a call of an hour counts for %v", got)
	}
	called, worked := CallTime(), ServiceTime()
	count(hardware, servicetime.Deflate, 1, time.Now().Add(-2*time.Hour))
	if CallTime()-called < 2*time.Hour || ServiceTime()-worked > 90*time.Minute {
		t.Errorf("a call that waits for an hour: %v in calls, %v at work", CallTime()-called, ServiceTime()-worked)
	}
}
