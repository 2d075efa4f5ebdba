// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"sync/atomic"
)

// workload is what is packed for the workers: items, each of pieces that go into a block, or into a few.
type workload struct {
	items chan []piece
	// unfinished counts items that no worker is done with; idle has a token when it may have become 0.
	unfinished atomic.Int64
	idle       chan struct{}
}

func newWorkload() *workload {
	return &workload{items: make(chan []piece), idle: make(chan struct{}, 1)}
}

// emit waits for a worker that takes an item.
func (w *workload) emit(ctx context.Context, item []piece) error {
	if len(item) == 0 {
		return nil
	}
	w.unfinished.Add(1)
	select {
	case w.items <- item:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finished notes that a worker is done with an item.
func (w *workload) finished() {
	if w.unfinished.Add(-1) > 0 {
		return
	}
	select {
	case w.idle <- struct{}{}:
	default:
	}
}

// await waits until the workers are done with everything that was emitted.
func (w *workload) await(ctx context.Context) error {
	for w.unfinished.Load() > 0 {
		select {
		case <-w.idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
