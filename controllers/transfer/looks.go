// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/plan"
)

// looks remembers when the snapshots of a Transfer's destination were last looked at. No cache has VolumeSnapshots, and
// a Transfer may be reconciled often. The zero value is ready for use, also concurrent.
type looks struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// begin reports whether to look now, and notes that: a look that is not needed waits until plan.HistoryRest after the
// last, whether that has seen anything or not.
func (l *looks) begin(of types.UID, now time.Time, needed bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.last[of]; known && !needed && now.Sub(last) < plan.HistoryRest {
		return false
	}
	if l.last == nil {
		l.last = map[types.UID]time.Time{}
	}
	l.last[of] = now
	return true
}

// forget a Transfer that is being deleted.
func (l *looks) forget(of types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, of)
}
