// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// exchanges bounds how often and how many other clusters are asked, for receipts or for history, so that one that hangs
// takes few of the workers and every Peer's status, which wakes its Transfers, may be written.
type exchanges struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// free exchanges may begin, and none with a busy peer.
	free int
	busy map[string]bool
	// next is when a Transfer's cluster may be asked again.
	next map[types.UID]time.Time
}

// newExchanges returns the bound for so many workers: a quarter of them.
func newExchanges(clock clock.PassiveClock, workers int) *exchanges {
	return &exchanges{
		clock: clock, free: max(1, workers/4), busy: map[string]bool{}, next: map[types.UID]time.Time{},
	}
}

// begin returns what to call at the end, with the time before the next exchange for the Transfer; 0 for none. Instead
// it returns how long to wait: pause if others are in the way.
func (e *exchanges) begin(of types.UID, peer string, pause time.Duration) (end func(time.Duration),
	wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wait := e.next[of].Sub(e.clock.Now()); wait > 0 {
		return nil, wait
	}
	if e.free == 0 || e.busy[peer] {
		return nil, pause
	}
	e.free--
	e.busy[peer] = true
	return func(again time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free++
		delete(e.busy, peer)
		delete(e.next, of)
		if again > 0 {
			e.next[of] = e.clock.Now().Add(again)
		}
	}, 0
}

// forget a Transfer: its receipt or its history is done, it is gone, or its Peer has to become Ready first.
func (e *exchanges) forget(of types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.next, of)
}
