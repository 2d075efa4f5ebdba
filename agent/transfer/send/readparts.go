// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"errors"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// readParts appends to the block what must be sent of a piece that has holes or that the receiver has another version
// of.
func (w *worker) readParts(p piece) error {
	if w.piece == nil {
		w.piece, w.hash = make([]byte, protocol.ChunkSize), protocol.NewPartHash(w.salt)
	}
	bytes := w.piece[:p.length]
	holes, err := w.readData(p, bytes)
	if errors.Is(err, tree.ErrChanged) {
		return w.changed.takeBack(p.file)
	}
	if err != nil {
		return err
	}
	length := int64(p.length)
	s := protocol.Segment{Index: p.file.index, Offset: uint64(p.offset), Length: uint32(p.length), Holes: holes}
	if holes.Bytes(length, protocol.ChunkSize) == length {
		s.Digest = w.zeros.Digest(length)
	} else {
		s.Digest = protocol.DigestOf(bytes)
	}
	const unit = protocol.ChunkSize / protocol.PartsPerChunk
	for i := range min(len(p.old), protocol.PartsOf(length, protocol.ChunkSize)) {
		if !holes.Has(i) && w.hash.Digest(bytes[i*unit:min((i+1)*unit, p.length)]) == p.old[i] {
			s.Reused |= 1 << i
		}
	}
	reused, absent := s.Reused.Bytes(length, protocol.ChunkSize), (s.Reused|holes).Bytes(length, protocol.ChunkSize)
	if len(w.plain)+p.length-int(absent) > protocol.ChunkSize || len(w.message.Segments) == protocol.MaxSegments {
		if err := w.block(false); err != nil {
			return err
		}
		w.plain, w.message.Segments = w.plain[:0], w.message.Segments[:0]
	}
	_ = (s.Reused | holes).Runs(length, protocol.ChunkSize, func(absent bool, start, end int64) error {
		if !absent {
			w.plain = append(w.plain, bytes[start:end]...)
		}
		return nil
	})
	w.message.Segments = append(w.message.Segments, s)
	w.report.Update(func(p *wirev1.Progress) {
		p.ReusedBytes += uint64(reused)
		p.HoleBytes += uint64(absent - reused)
	})
	return nil
}

// readData reads a piece and returns the parts of it that are in holes, which it does not read. If all are, bytes are
// not set.
func (w *worker) readData(p piece, bytes []byte) (holes protocol.Parts, err error) {
	f, err := w.source.Open(p.file.entry)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	end := p.offset + int64(p.length)
	if !p.file.entry.Sparse {
		if err := f.ReadAt(bytes, p.offset); err != nil {
			return 0, err
		}
		return 0, f.Check()
	}
	const unit = protocol.ChunkSize / protocol.PartsPerChunk
	all := protocol.Parts(1)<<protocol.PartsOf(int64(p.length), protocol.ChunkSize) - 1
	holes = all
	for next := p.offset; next < end; {
		from, to, err := f.Data(next)
		if err != nil {
			return 0, err
		}
		if from >= end {
			break
		}
		if holes == all {
			clear(bytes)
		}
		// Whole parts, so that what is read is what is sent.
		first, last := (from-p.offset)/unit, (min(to, end)-p.offset+unit-1)/unit
		start, stop := first*unit, min(last*unit, int64(p.length))
		if err := f.ReadAt(bytes[start:stop], p.offset+start); err != nil {
			return 0, err
		}
		holes &^= 1<<last - 1<<first
		next = p.offset + stop
	}
	return holes, f.Check()
}
