// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Segment is a wirev1.Segment without allocations: a piece of a file, whose bytes are in a block as far as they are not
// in Reused or Holes.
type Segment struct {
	Index  uint64
	Offset uint64
	Length uint32
	Digest Digest
	// Reused are the parts that the receiver has in its version of the file, Holes those that are zeros.
	Reused, Holes Parts
}

// The numbers of the fields in Segment.
const (
	fieldIndex  = 1
	fieldOffset = 2
	fieldLength = 3
	fieldDigest = 4
	fieldReused = 5
	fieldHoles  = 6
)

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

// append appends the segment as a field of a DataRequest.
func (s *Segment) append(b []byte) []byte {
	size := 4 + protowire.SizeVarint(s.Index) + protowire.SizeVarint(s.Offset) + protowire.SizeVarint(uint64(s.Length)) +
		protowire.SizeBytes(DigestSize) + sizeParts(s.Reused) + sizeParts(s.Holes)
	b = protowire.AppendTag(b, fieldSegments, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, fieldIndex, protowire.VarintType)
	b = protowire.AppendVarint(b, s.Index)
	b = protowire.AppendTag(b, fieldOffset, protowire.VarintType)
	b = protowire.AppendVarint(b, s.Offset)
	b = protowire.AppendTag(b, fieldLength, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(s.Length))
	b = protowire.AppendTag(b, fieldDigest, protowire.BytesType)
	b = protowire.AppendBytes(b, s.Digest[:])
	b = appendParts(b, fieldReused, s.Reused)
	b = appendParts(b, fieldHoles, s.Holes)
	return b
}

func sizeParts(p Parts) int {
	if p == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(p))
}

func appendParts(b []byte, field protowire.Number, p Parts) []byte {
	if p == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(p))
}

func (s *Segment) parse(b []byte) error {
	digest := false
	err := fields(b, func(number protowire.Number, kind protowire.Type, value []byte, n uint64) error {
		switch {
		case number == fieldIndex && kind == protowire.VarintType:
			s.Index = n
		case number == fieldOffset && kind == protowire.VarintType:
			s.Offset = n
		case number == fieldLength && kind == protowire.VarintType:
			if n > MaxChunkSize {
				return fmt.Errorf("%w: a segment of %d bytes; the limit is %d", ErrMalformed, n, MaxChunkSize)
			}
			s.Length = uint32(n)
		case (number == fieldReused || number == fieldHoles) && kind == protowire.VarintType:
			if n > AllParts {
				return fmt.Errorf("%w: a segment has parts beyond the %d of a chunk", ErrMalformed, PartsPerChunk)
			}
			if number == fieldReused {
				s.Reused = Parts(n)
			} else {
				s.Holes = Parts(n)
			}
		case number == fieldDigest && kind == protowire.BytesType:
			if len(value) != DigestSize {
				return fmt.Errorf("%w: a digest of %d bytes instead of %d", ErrMalformed, len(value), DigestSize)
			}
			copy(s.Digest[:], value)
			digest = true
		}
		return nil
	})
	if err == nil && !digest {
		return fmt.Errorf("%w: a segment without a digest", ErrMalformed)
	}
	return err
}
