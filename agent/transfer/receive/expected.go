// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// expected are the files whose content is to come, and a count of those that have come.
type expected struct {
	report *Report

	mu        sync.Mutex
	pending   map[uint64]*inFile // announced, needed, not complete
	weight    int64              // of pending
	space     chan struct{}      // has a token when pending became lighter
	takenBack map[uint64]*taken
	changed   int // of takenBack, those that are not resolved
	// files and bytes are complete; empty are files without content.
	files, bytes, empty uint64

	// partial bytes are of files of several chunks that are not complete. It may be less than 0 for moments.
	partial atomic.Int64
}

// taken is a file that was taken back.
type taken struct {
	path string
	size int64
	// resolved: it was announced again, or is gone.
	resolved bool
}

func newExpected(r *Report) *expected {
	return &expected{
		report: r, pending: make(map[uint64]*inFile), space: make(chan struct{}, 1), takenBack: make(map[uint64]*taken),
	}
}

// add notes a file whose content will come. It waits while those that have not come yet weigh twice what a sender may
// have announced and not sent: of tiny files many more are on their way, in the buffers of connections, and they come
// without anything that is said here. A sender that announces and never sends is one that is silent.
func (e *expected) add(ctx context.Context, f *inFile) error {
	for {
		e.mu.Lock()
		if weight := e.weight + protocol.Cost(&f.entry); weight <= 2*protocol.WindowBytes || len(e.pending) == 0 {
			e.weight, e.pending[f.index] = weight, f
			e.mu.Unlock()
			e.arrived(f, f.safe)
			return nil
		}
		e.mu.Unlock()
		select {
		case <-e.space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// find returns a file that is expected, nil for one that was taken back.
func (e *expected) find(index uint64) (*inFile, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.pending[index]; f != nil {
		return f, nil
	}
	if _, ok := e.takenBack[index]; ok {
		return nil, nil
	}
	return nil, protocol.Invalid("a segment of entry %d, which is not expected", index)
}

// arrived counts bytes of a file that is not complete, less than 0 when it is or is taken back.
func (e *expected) arrived(f *inFile, bytes int64) {
	if f.chunks <= 1 {
		return
	}
	e.partial.Add(bytes)
	e.report.Update(func(p *wirev1.Progress) { p.PartialBytes = e.partialBytes() })
}

func (e *expected) partialBytes() uint64 { return uint64(max(0, e.partial.Load())) }

// complete counts a file that has its name.
func (e *expected) complete(f *inFile) {
	e.mu.Lock()
	e.remove(f)
	e.files++
	e.bytes += uint64(f.entry.Size)
	e.mu.Unlock()
	e.arrived(f, -f.entry.Size)
	e.report.Update(func(p *wirev1.Progress) {
		p.Files++
		p.Bytes += uint64(f.entry.Size)
	})
}

// addEmpty counts files that were made at once, because they have no content.
func (e *expected) addEmpty(files uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.empty += files
}

// takeBack forgets a file that changed while the sender read it, and returns it.
func (e *expected) takeBack(index uint64) (*inFile, error) {
	e.mu.Lock()
	f := e.pending[index]
	if f != nil {
		e.remove(f)
		e.takenBack[index] = &taken{path: f.entry.Path, size: f.entry.Size}
		e.changed++
	}
	count := len(e.takenBack)
	e.mu.Unlock()
	if f == nil {
		return nil, protocol.Invalid("the sender takes back entry %d, which is not expected", index)
	}
	if count > protocol.MaxChanged {
		return nil, protocol.Invalid("the sender takes back more than %d files", protocol.MaxChanged)
	}
	e.arrived(f, -f.forget())
	return f, nil
}

// resolve returns a file that was taken back and that the sender has come back to, which it may do once.
func (e *expected) resolve(index uint64) (*taken, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.takenBack[index]
	if t == nil || t.resolved {
		return nil, protocol.Invalid("the sender announces entry %d again, which it has not taken back", index)
	}
	t.resolved = true
	e.changed--
	return t, nil
}

// remove takes a file away from pending; mu is held.
func (e *expected) remove(f *inFile) {
	delete(e.pending, f.index)
	e.weight -= protocol.Cost(&f.entry)
	select {
	case e.space <- struct{}{}:
	default:
	}
}

// tally is how far an attempt is.
type tally struct {
	files, bytes, empty uint64
	missing, changed    int // files that are expected, and that were taken back and not resolved
}

func (e *expected) tally() tally {
	e.mu.Lock()
	defer e.mu.Unlock()
	return tally{files: e.files, bytes: e.bytes, empty: e.empty, missing: len(e.pending), changed: e.changed}
}
