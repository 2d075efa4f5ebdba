// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"math/bits"

	"github.com/lighterage/lighterage/agent/cargo"
)

// Segment is a wirev1.Segment without allocations: a piece of a file, whose bytes are in a block as far as they are not
// in Reused or Holes.
type Segment struct {
	Index  uint64
	Offset uint64
	Length uint32
	Digest Digest
	// Undigested: the sender has not seen the plain bytes, and the checksum of the block stands for Digest.
	Undigested bool
	// Reused are the parts that the receiver has in its version of the file, Holes those that are zeros.
	Reused, Holes Parts
	// Mark is what the receiver's index is to know of the records of the piece.
	Mark cargo.Mark
}

// Absent are the parts whose bytes are not in the block.
func (s *Segment) Absent() Parts { return s.Reused | s.Holes }

// Carried returns how many bytes of the segment are in the block, from 0 to chunk, or what is wrong with it whatever
// file it is of.
func (s *Segment) Carried(chunk int64) (int64, error) {
	length := int64(s.Length)
	if length > chunk {
		return 0, Invalid("a segment of %d bytes; the session's chunks have %d", length, chunk)
	}
	absent := s.Absent()
	if absent>>PartsOf(length, chunk) != 0 || s.Reused&s.Holes != 0 {
		return 0, Invalid("a segment of %d bytes: parts %#x are to be reused and %#x are holes, which cannot be", length,
			s.Reused, s.Holes)
	}
	return length - absent.Bytes(length, chunk), nil
}

// A chunk is compared with the version that is at the destination, and looked for holes, in parts of a 16th of the
// chunk size. A segment says which parts of its piece are not in the block: those that the receiver has, and those that
// are zeros.
const (
	PartsPerChunk = 16
	// AllParts is the set of all parts of a whole chunk.
	AllParts = 1<<PartsPerChunk - 1
)

// Parts is a set of parts of a piece, a bit for each.
type Parts uint32

// Has reports whether part i is in the set.
func (p Parts) Has(i int) bool { return p>>i&1 != 0 }

// PartsOf returns how many parts a piece of length bytes has, where chunks have chunk bytes.
func PartsOf(length, chunk int64) int {
	unit := chunk / PartsPerChunk
	return int((length + unit - 1) / unit)
}

// Bytes returns how many bytes of a piece are in the parts of the set.
func (p Parts) Bytes(length, chunk int64) int64 {
	unit := chunk / PartsPerChunk
	n := int64(bits.OnesCount32(uint32(p))) * unit
	if last := PartsOf(length, chunk) - 1; last >= 0 && p.Has(last) {
		n -= int64(last+1)*unit - length
	}
	return n
}

// Runs calls visit for the longest ranges of a piece of length bytes whose parts are all, or all not, in the set.
func (p Parts) Runs(length, chunk int64, visit func(in bool, start, end int64) error) error {
	unit, n := chunk/PartsPerChunk, PartsOf(length, chunk)
	for first := 0; first < n; {
		last := first + 1
		for last < n && p.Has(last) == p.Has(first) {
			last++
		}
		if err := visit(p.Has(first), int64(first)*unit, min(int64(last)*unit, length)); err != nil {
			return err
		}
		first = last
	}
	return nil
}
