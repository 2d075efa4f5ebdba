// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/plan"
)

// Tracker remembers how much running attempts had sent lately, and when their agents answered last. It lives in memory: after a
// restart of the manager rates and silences begin anew. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	samples map[types.UID]tracked
}

type tracked struct {
	attempt string
	samples plan.Samples
	// heard is when the agent answered last, or was first asked in vain.
	heard time.Time
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{samples: map[types.UID]tracked{}}
}

// Add notes a sample of an object's attempt and returns the attempt's recent ones.
func (t *Tracker) Add(object types.UID, attempt string, now time.Time, bytes uint64) plan.Samples {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.samples[object]
	if known.attempt != attempt {
		known = tracked{attempt: attempt}
	}
	known.heard = now
	known.samples = known.samples.Add(plan.Sample{Time: now, Bytes: bytes})
	t.samples[object] = known
	return known.samples
}

// Silence notes that the agent of an object's attempt has not answered, and returns for how long.
func (t *Tracker) Silence(object types.UID, attempt string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.samples[object]
	if known.attempt != attempt {
		known = tracked{attempt: attempt, heard: now}
		t.samples[object] = known
	}
	return now.Sub(known.heard)
}

// Forget drops what is known of an object whose attempt has ended.
func (t *Tracker) Forget(object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.samples, object)
}
