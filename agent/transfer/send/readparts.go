// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// partReader reads pieces that have holes or that the receiver has another version of.
type partReader struct {
	source Source
	salt   []byte
	// buffer and hash are nil before the first piece.
	buffer []byte
	hash   *protocol.PartHash
	zeros  protocol.ZeroHash
}

// read returns the segment of a piece, and the bytes of it, those of parts that need not be sent included. They are
// valid until the next piece is read.
func (r *partReader) read(p piece) (s protocol.Segment, bytes []byte, err error) {
	if r.buffer == nil {
		r.buffer, r.hash = make([]byte, protocol.ChunkSize), protocol.NewPartHash(r.salt)
	}
	bytes = r.buffer[:p.length]
	holes, err := r.readData(p, bytes)
	if err != nil {
		return s, nil, err
	}
	length := int64(p.length)
	s = protocol.Segment{Index: p.file.index, Offset: uint64(p.offset), Length: uint32(p.length), Holes: holes}
	if holes.Bytes(length, protocol.ChunkSize) == length {
		s.Digest = r.zeros.Digest(length)
	} else {
		s.Digest = protocol.DigestOf(bytes)
	}
	const unit = protocol.ChunkSize / protocol.PartsPerChunk
	for i := range min(len(p.old), protocol.PartsOf(length, protocol.ChunkSize)) {
		if !holes.Has(i) && r.hash.Matches(bytes[i*unit:min((i+1)*unit, p.length)], p.old[i]) {
			s.Reused |= 1 << i
		}
	}
	return s, bytes, nil
}

// readData reads a piece and returns the parts of it that are in holes, which it does not read, or nothing but zeros.
// If all are, buffer is not set or all zeros.
func (r *partReader) readData(p piece, buffer []byte) (holes protocol.Parts, err error) {
	sparse, ok := r.source.(SparseSource)
	if !ok || !p.file.entry.Sparse {
		if err := r.source.ReadAt(p.file.entry, buffer, p.offset); err != nil || !p.file.entry.Sparse {
			return 0, err
		}
		return zerosOf(buffer), nil
	}
	f, err := sparse.Open(p.file.entry)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	end := p.offset + int64(p.length)
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
			clear(buffer)
		}
		// Whole parts, so that what is read is what is sent.
		first, last := (from-p.offset)/unit, (min(to, end)-p.offset+unit-1)/unit
		start, stop := first*unit, min(last*unit, int64(p.length))
		if err := f.ReadAt(buffer[start:stop], p.offset+start); err != nil {
			return 0, err
		}
		for i := first; i < last; i++ {
			// Not all file systems know of their holes, and devices of none.
			if !protocol.IsZeros(buffer[i*unit : min((i+1)*unit, stop)]) {
				holes &^= 1 << i
			}
		}
		next = p.offset + stop
	}
	return holes, f.Check()
}

// zerosOf returns the parts of a piece that are nothing but zeros.
func zerosOf(bytes []byte) (zeros protocol.Parts) {
	const unit = protocol.ChunkSize / protocol.PartsPerChunk
	for i := range protocol.PartsOf(int64(len(bytes)), protocol.ChunkSize) {
		if protocol.IsZeros(bytes[i*unit : min((i+1)*unit, len(bytes))]) {
			zeros |= 1 << i
		}
	}
	return zeros
}
