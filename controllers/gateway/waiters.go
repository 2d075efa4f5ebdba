// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"sync"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// waiters are the runs that wait for their receiving agents, by plan.SenderHash.
type waiters struct {
	mu  sync.Mutex
	all map[string]map[chan struct{}]struct{}
}

// join returns a channel that has something when a Delivery of the sender has changed, until leave is called.
func (w *waiters) join(sender string) (changed <-chan struct{}, leave func()) {
	// One change is as good as many.
	own := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]map[chan struct{}]struct{}{}
	}
	if w.all[sender] == nil {
		w.all[sender] = map[chan struct{}]struct{}{}
	}
	w.all[sender][own] = struct{}{}
	return own, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.all[sender], own); len(w.all[sender]) == 0 {
			delete(w.all, sender)
		}
	}
}

// wake tells those who wait for a Delivery that it has changed.
func (w *waiters) wake(delivery *v1alpha1.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	for own := range w.all[senderOf(delivery)] {
		select {
		case own <- struct{}{}:
		default:
		}
	}
}

func senderOf(delivery *v1alpha1.Delivery) string {
	of := delivery.Spec.Transfer
	return plan.SenderHash(delivery.Spec.Peer, of.Namespace, of.Name)
}
