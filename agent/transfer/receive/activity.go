// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"sync"
	"sync/atomic"
	"time"
)

// activity is what is being done at the destination, and when something came from the sender last.
type activity struct {
	// began and last, which is in nanoseconds since, are not of the clock that can be set.
	began time.Time
	last  atomic.Int64
	// settling counts what is being done that does not wait for the sender, however long it takes.
	settling atomic.Int32

	mu     sync.Mutex
	closed bool           // nothing is begun any more
	busy   sync.WaitGroup // what is being done
}

func newActivity() *activity { return &activity{began: time.Now()} }

// do does something because of what came, unless the attempt is over: then it returns false.
func (a *activity) do(work func()) bool {
	a.touch()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return false
	}
	a.busy.Add(1)
	a.mu.Unlock()
	work()
	// A slow destination is not a silent sender.
	a.touch()
	a.busy.Done()
	return true
}

// shut waits for what is being done and keeps anything further from beginning.
func (a *activity) shut() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.busy.Wait()
}

// touch notes that the sender is not silent.
func (a *activity) touch() { a.last.Store(int64(time.Since(a.began))) }

// busyWhile does something that the sender waits for, and whose time is not the sender's silence.
func (a *activity) busyWhile(work func()) {
	a.settling.Add(1)
	work()
	a.touch()
	a.settling.Add(-1)
}

// silence is how long the sender has been silent.
func (a *activity) silence() time.Duration {
	if a.settling.Load() > 0 {
		return 0
	}
	return time.Since(a.began) - time.Duration(a.last.Load())
}
