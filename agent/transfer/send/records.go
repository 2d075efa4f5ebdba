// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"fmt"
	"sync"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
)

// pieceRecords finds the records of the pieces of a file.
type pieceRecords struct {
	records cargo.Records
	chain   *cargo.RecordChain
	look    sync.Once
	indexed bool // as isIndexed returns
}

// newPieceRecords returns those of a file that is about to be cut; nil if none are asked for.
func newPieceRecords(records cargo.Records, f *outFile) *pieceRecords {
	if records.Layout == cargo.NoRecords {
		return nil
	}
	r := &pieceRecords{records: records}
	skipped, latest := f.skip, int64(0)
	if f.skip.latest != nil {
		latest = int64(*f.skip.latest)
	}
	r.chain = cargo.NewRecordChain(records, f.entry.Size, skipped.next(0), latest)
	if len(f.skip.ranges) > 0 && f.skip.latest == nil {
		r.chain.Stop() // The receiver knows no records of what is safe.
	}
	return r
}

// isIndexed reports whether the index at the source knows the records of a file, and all its blocks are pieces. Of a
// file that is not carried it is not asked.
func (r *pieceRecords) isIndexed(source Source, f *outFile) bool {
	r.look.Do(func() {
		if f.carried {
			// Who carries a piece finds the same error, and knows what to do.
			index, err := indexOf(source, f.entry)
			r.indexed = err == nil && index.Records() == r.records && index.CutAt(protocol.ChunkSize)
		}
	})
	return r.indexed
}

func indexOf(source Source, e *tree.Entry) (*cargo.Index, error) {
	cargoes, ok := source.(CargoSource)
	if !ok {
		return nil, fmt.Errorf("files of a source of type %T have no index", source)
	}
	return cargoes.Index(e)
}

// stop lets those go on who wait for pieces of a file that was taken back.
func (r *pieceRecords) stop() {
	if r != nil {
		r.chain.Stop()
	}
}

// mark returns what the receiver's index is to know of the records of a piece, whose plain bytes are there.
func (w *worker) mark(ctx context.Context, p piece, plain []byte) (cargo.Mark, error) {
	switch r := p.file.records; {
	case r == nil:
		return cargo.Mark{}, nil
	case r.isIndexed(w.source, p.file):
		index, err := indexOf(w.source, p.file.entry)
		if err != nil {
			return cargo.Mark{}, err
		}
		m := index.MarkAt(r.records, p.offset, p.length)
		if m == (cargo.Mark{}) {
			return m, tree.ErrChanged // It knew all, and is another one now.
		}
		return m, nil
	default:
		return r.chain.Mark(ctx, p.offset, plain, func(b []byte, offset int64) error {
			return w.source.ReadAt(p.file.entry, b, offset)
		})
	}
}

// carriedMark is mark for a piece that travels as it rests. Its plain bytes are read if the index at the source does
// not know the records.
func (w *worker) carriedMark(ctx context.Context, p piece) (cargo.Mark, error) {
	r := p.file.records
	if r == nil || r.isIndexed(w.source, p.file) {
		return w.mark(ctx, p, nil)
	}
	if m, known := r.chain.MarkUnread(p.offset, int64(p.length)); known {
		return m, nil
	}
	plain := w.plain[:p.length] // of nothing else meanwhile
	var err error
	w.haveRead(meter.ThreadCPU(func() { err = w.source.ReadAt(p.file.entry, plain, p.offset) }))
	if err != nil {
		return cargo.Mark{}, err
	}
	return w.mark(ctx, p, plain)
}
