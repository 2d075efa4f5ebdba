// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lighterage/lighterage/agent/frame"
)

// segment is a wirev1.Segment without allocations.
type segment struct {
	index  uint64
	offset uint64
	length uint32
	digest [digestSize]byte
	// reused and holes are the parts whose bytes are not in the block.
	reused, holes parts
}

const digestSize = 16

// dataMessage is a wirev1.DataRequest that neither copies its block nor allocates memory for every one. On a connection
// its length goes before it, in 4 bytes, big-endian.
type dataMessage struct {
	session  []byte
	segments []segment
	// received is the block that came, valid until the next one is read.
	received []byte
	// buffer holds the message that came, or the part before the block of one that is sent.
	buffer []byte
}

// maxMessage is the longest message in bytes: a block and what describes it, up to maxSegments of some 50 bytes each.
const maxMessage = frame.MaxBlock + 512<<10

// The numbers of the fields in DataRequest and Segment.
const (
	fieldSession  = 1
	fieldSegments = 2
	fieldBlock    = 3

	fieldIndex  = 1
	fieldOffset = 2
	fieldLength = 3
	fieldDigest = 4
	fieldReused = 5
	fieldHoles  = 6
)

var (
	errMessage  = errors.New("malformed data message")
	errSegments = fmt.Errorf("%w: more than %d segments in a block", errMessage, maxSegments)
)

// write writes the message with the block that a header and a payload make up. The payload is not copied.
func (m *dataMessage) write(w io.Writer, header, payload []byte) error {
	m.buffer = m.appendHead(append(m.buffer[:0], 0, 0, 0, 0), len(header)+len(payload))
	m.buffer = append(m.buffer, header...)
	binary.BigEndian.PutUint32(m.buffer, uint32(len(m.buffer)-4+len(payload)))
	if _, err := w.Write(m.buffer); err != nil || len(payload) == 0 {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// appendHead appends everything up to the bytes of the block.
func (m *dataMessage) appendHead(b []byte, block int) []byte {
	if len(m.session) > 0 {
		b = protowire.AppendTag(b, fieldSession, protowire.BytesType)
		b = protowire.AppendBytes(b, m.session)
	}
	for i := range m.segments {
		s := &m.segments[i]
		size := 4 + protowire.SizeVarint(s.index) + protowire.SizeVarint(s.offset) + protowire.SizeVarint(uint64(s.length)) +
			protowire.SizeBytes(digestSize) + sizeParts(s.reused) + sizeParts(s.holes)
		b = protowire.AppendTag(b, fieldSegments, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = protowire.AppendTag(b, fieldIndex, protowire.VarintType)
		b = protowire.AppendVarint(b, s.index)
		b = protowire.AppendTag(b, fieldOffset, protowire.VarintType)
		b = protowire.AppendVarint(b, s.offset)
		b = protowire.AppendTag(b, fieldLength, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(s.length))
		b = protowire.AppendTag(b, fieldDigest, protowire.BytesType)
		b = protowire.AppendBytes(b, s.digest[:])
		b = appendParts(b, fieldReused, s.reused)
		b = appendParts(b, fieldHoles, s.holes)
	}
	b = protowire.AppendTag(b, fieldBlock, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(block))
}

func sizeParts(p parts) int {
	if p == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(p))
}

func appendParts(b []byte, field protowire.Number, p parts) []byte {
	if p == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(p))
}

// read reads the next message. It returns io.EOF when the connection ends before it, an errMessage when there is
// something else.
func (m *dataMessage) read(r io.Reader) error {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n > maxMessage {
		return fmt.Errorf("%w: %d bytes; the limit is %d", errMessage, n, maxMessage)
	}
	m.buffer = slices.Grow(m.buffer[:0], int(n))[:n]
	if _, err := io.ReadFull(r, m.buffer); err != nil {
		return fmt.Errorf("read a data message: %w", err)
	}
	return m.parse(m.buffer)
}

// parse reads a message; received then is a part of b.
func (m *dataMessage) parse(b []byte) error {
	m.session, m.segments, m.received = m.session[:0], m.segments[:0], nil
	return fields(b, func(number protowire.Number, kind protowire.Type, value []byte, _ uint64) error {
		switch {
		case number == fieldSession && kind == protowire.BytesType:
			m.session = append(m.session[:0], value...)
		case number == fieldSegments && kind == protowire.BytesType:
			if len(m.segments) == maxSegments {
				return errSegments
			}
			var s segment
			if err := s.parse(value); err != nil {
				return err
			}
			m.segments = append(m.segments, s)
		case number == fieldBlock && kind == protowire.BytesType:
			m.received = value
		}
		return nil
	})
}

func (s *segment) parse(b []byte) error {
	digest := false
	err := fields(b, func(number protowire.Number, kind protowire.Type, value []byte, n uint64) error {
		switch {
		case number == fieldIndex && kind == protowire.VarintType:
			s.index = n
		case number == fieldOffset && kind == protowire.VarintType:
			s.offset = n
		case number == fieldLength && kind == protowire.VarintType:
			if n > maxChunkSize {
				return fmt.Errorf("%w: a segment of %d bytes; the limit is %d", errMessage, n, maxChunkSize)
			}
			s.length = uint32(n)
		case (number == fieldReused || number == fieldHoles) && kind == protowire.VarintType:
			if n > allParts {
				return fmt.Errorf("%w: a segment has parts beyond the %d of a chunk", errMessage, partsPerChunk)
			}
			if number == fieldReused {
				s.reused = parts(n)
			} else {
				s.holes = parts(n)
			}
		case number == fieldDigest && kind == protowire.BytesType:
			if len(value) != digestSize {
				return fmt.Errorf("%w: a digest of %d bytes instead of %d", errMessage, len(value), digestSize)
			}
			copy(s.digest[:], value)
			digest = true
		}
		return nil
	})
	if err == nil && !digest {
		return fmt.Errorf("%w: a segment without a digest", errMessage)
	}
	return err
}

// fields calls visit for the fields of a message, with the bytes or the number in them. Fields of other kinds are
// skipped.
func fields(b []byte, visit func(protowire.Number, protowire.Type, []byte, uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMessage
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
			return errMessage
		}
		if err := visit(number, kind, value, varint); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
