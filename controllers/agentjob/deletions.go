// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deletionMemory is how long an object is remembered after it was last seen.
const deletionMemory = time.Hour

// Deletions tell for how long objects have been seen to be deleted. Their DeletionTimestamp is by the clock of the API
// server, from which the manager's may differ by any amount: a manager that is ahead would let an agent go that still
// writes, and one that is behind would wait for one whose node is gone. They live in memory: after a restart of the
// manager patience begins again. The zero value is ready for use, also concurrent.
type Deletions struct {
	mu   sync.Mutex
	seen map[types.UID]deletion
}

type deletion struct{ first, last time.Time }

// Since notes that an object is being deleted, and returns for how long that has been seen.
func (d *Deletions) Since(object types.UID, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.seen[object]
	if !ok {
		known.first = now
		d.forget(now)
	}
	known.last = now
	if d.seen == nil {
		d.seen = map[types.UID]deletion{}
	}
	d.seen[object] = known
	return now.Sub(known.first)
}

// forget drops what is gone. Nobody tells when an object is.
func (d *Deletions) forget(now time.Time) {
	for object, known := range d.seen {
		if now.Sub(known.last) > deletionMemory {
			delete(d.seen, object)
		}
	}
}
