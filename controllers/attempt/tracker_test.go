// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/attempt"
)

func TestSilence(t *testing.T) {
	tracker, now := attempt.NewTracker(), time.Now()
	for _, step := range []struct {
		after   time.Duration
		attempt string
		answers bool
		want    time.Duration
	}{
		{0, "1", false, 0}, {4 * time.Second, "1", false, 4 * time.Second}, {6 * time.Second, "1", true, 0},
		{9 * time.Second, "1", false, 3 * time.Second}, {10 * time.Second, "2", false, 0}, {12 * time.Second, "2", false, 2 * time.Second},
	} {
		at := now.Add(step.after)
		if step.answers {
			tracker.Add("uid", step.attempt, at, 1)
			continue
		}
		if got := tracker.Silence("uid", step.attempt, at); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
}
