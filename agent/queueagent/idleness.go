// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// idleness adds up the CPU time that the process spent between looks between which nothing passed. A member is there
// all the time, so that its process's time divided by what little passed would say nothing of what a message costs.
type idleness struct {
	mu     sync.Mutex
	known  bool // there was a look
	cpu    time.Duration
	passed uint64
	idle   time.Duration
}

// look notes how much has passed by now, in any unit.
func (i *idleness) look(passed uint64) {
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return // nor is it known how much was spent
	}
	i.noted(user+system, passed)
}

func (i *idleness) noted(cpu time.Duration, passed uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known && passed == i.passed {
		i.idle += cpu - i.cpu
	}
	i.known, i.cpu, i.passed = true, cpu, passed
}

func (i *idleness) spent() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.idle
}

// reset begins again, with the next look.
func (i *idleness) reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.idle = false, 0
}

// passed is a number that changes when this member has said something to a client or another cluster, or heard of them,
// or taken over a change from another member.
func (r *running) passed() uint64 {
	channels := &wirev1.QueueReport{}
	r.channels.report(channels)
	return uint64(r.front.WireBytes().Load()) + channels.GetChannel().GetWireBytes() +
		channels.GetReceivedWireBytes() + r.store.Applied()
}
