// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/agentreport"
)

// sampleSpacing is the shortest time between two samples: one answer may be looked at several times.
const sampleSpacing = time.Second

// Tracker remembers how much running attempts had sent lately. It lives in memory: after a restart of the manager rates
// begin at zero. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	samples map[types.UID]tracked
}

type tracked struct {
	attempt string
	samples agentreport.Samples
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{samples: map[types.UID]tracked{}}
}

// Add notes a sample of an object's attempt, unless there is one of that time, and returns the attempt's recent ones.
func (t *Tracker) Add(object types.UID, attempt string, at time.Time, bytes uint64) agentreport.Samples {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.samples[object]
	if known.attempt != attempt {
		known = tracked{attempt: attempt}
	}
	if n := len(known.samples); n == 0 || at.Sub(known.samples[n-1].Time) >= sampleSpacing {
		known.samples = known.samples.Add(agentreport.Sample{Time: at, Bytes: bytes})
		t.samples[object] = known
	}
	return known.samples
}

// Forget drops what is known of an object whose attempt has ended.
func (t *Tracker) Forget(object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.samples, object)
}
