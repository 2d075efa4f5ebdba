// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
)

// window bounds the files that are announced and not complete, and counts those that were sent.
type window struct {
	space *semaphore.Weighted
	files atomic.Uint64 // sent completely
	bytes atomic.Uint64
}

func newWindow() *window { return &window{space: semaphore.NewWeighted(protocol.WindowBytes)} }

// acquire waits for space for a file.
func (w *window) acquire(ctx context.Context, e *tree.Entry) error {
	if w.space.Acquire(ctx, protocol.Cost(e)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// release gives back the space of a file.
func (w *window) release(e *tree.Entry) { w.space.Release(protocol.Cost(e)) }

// handled counts a piece that needs no more work and gives back the space of the file after its last one.
func (w *window) handled(p piece) {
	f := p.file
	f.state.mu.Lock()
	f.state.handled += int64(p.length)
	done, sent := f.state.handled == f.entry.Size, !f.state.takenBack
	f.state.mu.Unlock()
	if !done {
		return
	}
	if sent {
		w.files.Add(1)
		w.bytes.Add(uint64(f.entry.Size))
	}
	w.release(f.entry)
}
