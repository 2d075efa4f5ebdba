// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lighterage/lighterage/controllers/conditions"
)

func TestMergeMovesTimeOnlyWithTheStatus(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	first := conditions.Merge(nil, conditions.Reconciling("Starting", "a"), 1, start)
	second := conditions.Merge(first, conditions.Reconciling("Opening", "b"), 2, start.Add(time.Minute))
	third := conditions.Merge(second, conditions.Ready("Succeeded", "c"), 2, start.Add(2*time.Minute))

	ready := meta.FindStatusCondition(second, "Ready")
	if !ready.LastTransitionTime.Time.Equal(start) || ready.Reason != "Opening" || ready.ObservedGeneration != 2 {
		t.Errorf("after a change of reason: %+v", ready)
	}
	if got := meta.FindStatusCondition(first, "Ready").Reason; got != "Starting" {
		t.Errorf("the argument was changed: %s", got)
	}
	ready = meta.FindStatusCondition(third, "Ready")
	if !ready.LastTransitionTime.Time.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("after a change of status: %+v", ready)
	}
}

func TestShorten(t *testing.T) {
	for _, message := range []string{"", "short", strings.Repeat("x", 1024), strings.Repeat("é", 4000)} {
		got := conditions.Shorten(message)
		if len(got) > 1024 || !utf8.ValidString(got) || (len(message) <= 1024 && got != message) {
			t.Errorf("%d bytes became %q", len(message), got)
		}
	}
}
