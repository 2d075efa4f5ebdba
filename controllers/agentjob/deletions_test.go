// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/agentjob"
)

func TestDeletions(t *testing.T) {
	var deletions agentjob.Deletions
	begin := time.Now()
	for _, step := range []struct {
		object      string
		after, want time.Duration
	}{
		{"a", 0, 0}, {"a", 10 * time.Second, 10 * time.Second}, {"b", 15 * time.Second, 0}, {"a", time.Hour, time.Hour},
		// A third one lets the second be forgotten, which nobody has asked about for long, but not the first.
		{"c", 62 * time.Minute, 0}, {"a", 63 * time.Minute, 63 * time.Minute}, {"b", 64 * time.Minute, 0},
	} {
		if got := deletions.Since(types.UID(step.object), begin.Add(step.after)); got != step.want {
			t.Errorf("%s after %s: %s, want %s", step.object, step.after, got, step.want)
		}
	}
}
