// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob_test

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/agentjob"
)

// TestTracker: an answer that is looked at often is one sample, and another attempt begins with none.
func TestTracker(t *testing.T) {
	tracker, now := agentjob.NewTracker(), time.Now()
	for _, step := range []struct {
		after   time.Duration
		attempt string
		bytes   uint64
		samples int
		rate    int64
	}{
		{0, "1", 0, 1, 0}, {time.Millisecond, "1", 0, 1, 0}, {4 * time.Second, "1", 400, 2, 100},
		{4 * time.Second, "1", 400, 2, 100},
		{80 * time.Second, "1", 4200, 2, 50}, {81 * time.Second, "2", 100, 1, 0},
	} {
		got := tracker.Add("uid", step.attempt, now.Add(step.after), step.bytes)
		if len(got) != step.samples || got.Rate() != step.rate {
			t.Errorf(
				"after %s: %d samples, %d a second, want %d and %d", step.after, len(got), got.Rate(), step.samples, step.rate,
			)
		}
	}
	tracker.Forget("uid")
	if got := tracker.Add("uid", "2", now, 0); len(got) != 1 {
		t.Errorf("%d samples of one that was forgotten", len(got))
	}
}
