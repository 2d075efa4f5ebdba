// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// batch are the entries of one manifest.
type batch struct {
	first   uint64
	entries []*tree.Entry
	start   int64 // bytes of the files before it
}

// outFile is a file whose content the receiver needs.
type outFile struct {
	entry *tree.Entry
	index uint64
	start int64 // bytes of the files before it
	state outState
	// skip is what is safe at the receiver already.
	skip skip
	// old: the receiver has another version of it.
	old bool
	// carried: its blocks travel as they rest.
	carried bool
	// records of its pieces; nil before it is cut into them, and if none are asked for.
	records *pieceRecords
}

// piece is a chunk of a file, or its shorter last one.
type piece struct {
	file   *outFile
	offset int64
	length int
	// old are the digests of its parts in the version that the receiver has; there may be fewer, or none.
	old []protocol.Digest
}

// outState is how far the sending of a file is.
type outState struct {
	mu sync.Mutex
	// handled are the bytes that were sent or given up.
	handled int64
	// takenBack: the file changed, and the receiver was told to forget it.
	takenBack bool
}

func (f *outFile) isTakenBack() bool {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	return f.state.takenBack
}

// skip says what a sender does not send of a file.
type skip struct {
	ranges []*wirev1.ChunkRange
	bytes  int64
	// latest is where a record begins, behind which none is known to that is safe; nil if that is not known.
	latest *uint64
}

// next returns the offset of the first chunk from offset on that is to be sent.
func (s *skip) next(offset int64) int64 {
	for len(s.ranges) > 0 {
		first, end := int64(
			s.ranges[0].GetFirst(),
		)*protocol.ChunkSize, int64(s.ranges[0].GetFirst()+s.ranges[0].GetCount())*protocol.ChunkSize
		if offset < first {
			return offset
		}
		if offset < end {
			offset = end
		}
		s.ranges = s.ranges[1:]
	}
	return offset
}

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
