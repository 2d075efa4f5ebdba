// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"sync"
	"time"
)

// Idleness adds up the CPU time that the process spent between looks between which nothing passed. An agent that serves
// is there all the time, so that its process's time divided by what little passed would say nothing of what a message
// or a response costs. The zero value is ready to use, and safe for concurrent use.
type Idleness struct {
	mu     sync.Mutex
	known  bool // there was a look
	cpu    time.Duration
	passed uint64
	idle   time.Duration
}

// Look notes how much has passed by now, in any unit.
func (i *Idleness) Look(passed uint64) {
	user, system, err := ProcessCPU()
	if err != nil {
		return // nor is it known how much was spent
	}
	i.noted(user+system, passed)
}

func (i *Idleness) noted(cpu time.Duration, passed uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known && passed == i.passed {
		i.idle += cpu - i.cpu
	}
	i.known, i.cpu, i.passed = true, cpu, passed
}

// Spent is the time that was spent idle, since the first look after the last reset.
func (i *Idleness) Spent() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.idle
}

// Reset begins again, with the next look.
func (i *Idleness) Reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.idle = false, 0
}
