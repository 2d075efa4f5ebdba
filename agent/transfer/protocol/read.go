// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lighterage/lighterage/agent/frame"
)

// maxMessage is the longest message in bytes: a block and what describes it, up to MaxSegments of some 50 bytes each.
const maxMessage = frame.MaxBlock + 512<<10

var (
	// ErrMalformed is the error of a message that came whole and is none.
	ErrMalformed = errors.New("malformed data message")

	errSegments = fmt.Errorf("%w: more than %d segments in a block", ErrMalformed, MaxSegments)
)

// Read reads the next message. It returns io.EOF when the connection ends before it, an ErrMalformed when there is
// something else.
func (m *DataMessage) Read(r io.Reader) error {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n > maxMessage {
		return fmt.Errorf("%w: %d bytes; the limit is %d", ErrMalformed, n, maxMessage)
	}
	m.buffer = slices.Grow(m.buffer[:0], int(n))[:n]
	if _, err := io.ReadFull(r, m.buffer); err != nil {
		return fmt.Errorf("read a data message: %w", err)
	}
	return m.parse(m.buffer)
}

// parse reads a message; Received then is a part of b.
func (m *DataMessage) parse(b []byte) error {
	m.Session, m.Segments, m.Received = m.Session[:0], m.Segments[:0], nil
	return fields(b, func(number protowire.Number, kind protowire.Type, value []byte, _ uint64) error {
		switch {
		case number == fieldSession && kind == protowire.BytesType:
			m.Session = append(m.Session[:0], value...)
		case number == fieldSegments && kind == protowire.BytesType:
			if len(m.Segments) == MaxSegments {
				return errSegments
			}
			var s Segment
			if err := s.parse(value); err != nil {
				return err
			}
			m.Segments = append(m.Segments, s)
		case number == fieldBlock && kind == protowire.BytesType:
			m.Received = value
		}
		return nil
	})
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
		case (number == fieldRecordsBefore || number == fieldRecords) && kind == protowire.VarintType:
			if n > MaxChunkSize {
				return fmt.Errorf("%w: a segment with records of %d bytes; the limit is %d", ErrMalformed, n, MaxChunkSize)
			}
			if number == fieldRecordsBefore {
				s.Mark.Before = uint32(n)
			} else {
				s.Mark.Count = uint32(n)
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
	s.Undigested = !digest
	return err
}

// fields calls visit for the fields of a message, with the bytes or the number in them. Fields of other kinds are
// skipped.
func fields(b []byte, visit func(protowire.Number, protowire.Type, []byte, uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
		var value []byte
		var varint uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return ErrMalformed
		}
		if err := visit(number, kind, value, varint); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
