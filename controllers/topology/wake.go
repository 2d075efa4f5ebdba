// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// gathering is for how long changes of nodes are gathered before they wake anybody: a rollout or an autoscaler
	// changes many at once.
	gathering = time.Second
	// perWoken is the share of time that is left for each who is woken, so that a cluster whose nodes change all the
	// time does not keep the controllers from all else when thousands wait. longestGathering bounds it.
	perWoken         = 2 * time.Millisecond
	longestGathering = time.Minute
)

// wakes those who wait for a node.
type wakes struct {
	mu       sync.Mutex
	pending  bool
	next     time.Time
	sleepers []func() (woken int)
}

// changed: a node has.
func (w *wakes) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.pending {
		w.pending = true
		time.AfterFunc(max(gathering, time.Until(w.next)), w.wake)
	}
}

func (w *wakes) wake() {
	w.mu.Lock()
	// What changes from now on may be too late for those who are woken.
	w.pending = false
	sleepers := w.sleepers
	w.mu.Unlock()
	woken := 0
	for _, sleeper := range sleepers {
		woken += sleeper()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.Now().Add(min(time.Duration(woken)*perWoken, longestGathering))
}

// Waiting is the source of a controller that asks who waits for a node when nodes have changed: a second later or more,
// and once for all that has changed by then. Nobody is asked for when a manager starts, as every object is reconciled
// then.
func (t *Topology) Waiting(who func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		t.wakes.mu.Lock()
		defer t.wakes.mu.Unlock()
		t.wakes.sleepers = append(t.wakes.sleepers, func() int {
			if ctx.Err() != nil {
				return 0
			}
			waiting := who(ctx)
			for _, request := range waiting {
				queue.Add(request)
			}
			return len(waiting)
		})
		return nil
	})
}
