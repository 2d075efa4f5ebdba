// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"testing"
	"time"
)

func TestIdleness(t *testing.T) {
	var i Idleness
	for _, step := range []struct {
		cpu    time.Duration
		passed uint64
		idle   time.Duration
	}{
		{100, 0, 0}, // what came before the first look is the start's
		{110, 0, 10},
		{130, 5, 10}, // something passed
		{131, 5, 11},
		{140, 2, 11}, // a channel is gone, with what it counted
		{145, 2, 16},
	} {
		if i.noted(step.cpu, step.passed); i.Spent() != step.idle {
			t.Errorf("at %d: %d idle, want %d", step.cpu, i.Spent(), step.idle)
		}
	}
	i.Reset()
	if i.noted(150, 2); i.Spent() != 0 {
		t.Errorf("%d idle after a reset", i.Spent())
	}
	if i.noted(157, 2); i.Spent() != 7 {
		t.Errorf("%d idle, want 7", i.Spent())
	}
}
