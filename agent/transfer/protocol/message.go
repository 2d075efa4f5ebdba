// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// DataMessage is a wirev1.DataRequest that neither copies its block nor allocates memory for every one. On a connection
// its length goes before it, in 4 bytes, big-endian.
type DataMessage struct {
	// Session is the token of the session; it is stated in the first message of a connection.
	Session  []byte
	Segments []Segment
	// Received is the block that came, valid until the next one is read.
	Received []byte
	// buffer holds the message that came, or the part before the block of one that is sent.
	buffer []byte
}

// The numbers of the fields in DataRequest.
const (
	fieldSession  = 1
	fieldSegments = 2
	fieldBlock    = 3
)

// The numbers of the fields in Segment.
const (
	fieldIndex  = 1
	fieldOffset = 2
	fieldLength = 3
	fieldDigest = 4
	fieldReused = 5
	fieldHoles  = 6

	fieldRecordsBefore = 7
	fieldRecords       = 8
)

// aheadWriter is a writer that may keep what is written ahead until something follows it.
type aheadWriter interface {
	WriteAhead(p []byte) (int, error)
}

// Write writes the message with the block that a header and a payload make up. The payload is not copied.
func (m *DataMessage) Write(w io.Writer, header, payload []byte) error {
	m.buffer = m.appendHead(append(m.buffer[:0], 0, 0, 0, 0), len(header)+len(payload))
	m.buffer = append(m.buffer, header...)
	binary.BigEndian.PutUint32(m.buffer, uint32(len(m.buffer)-4+len(payload)))
	if len(payload) == 0 {
		_, err := w.Write(m.buffer)
		return err
	}
	writeHead := w.Write
	if ahead, ok := w.(aheadWriter); ok {
		writeHead = ahead.WriteAhead
	}
	if _, err := writeHead(m.buffer); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// appendHead appends everything up to the bytes of the block.
func (m *DataMessage) appendHead(b []byte, block int) []byte {
	if len(m.Session) > 0 {
		b = protowire.AppendTag(b, fieldSession, protowire.BytesType)
		b = protowire.AppendBytes(b, m.Session)
	}
	for i := range m.Segments {
		b = m.Segments[i].append(b)
	}
	b = protowire.AppendTag(b, fieldBlock, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(block))
}

// append appends the segment as a field of a DataRequest.
func (s *Segment) append(b []byte) []byte {
	size := 3 + protowire.SizeVarint(s.Index) + protowire.SizeVarint(s.Offset) + protowire.SizeVarint(uint64(s.Length)) +
		sizeNumber(uint32(s.Reused)) + sizeNumber(uint32(s.Holes)) +
		sizeNumber(s.Mark.Before) + sizeNumber(s.Mark.Count)
	if !s.Undigested {
		size += 1 + protowire.SizeBytes(DigestSize)
	}
	b = protowire.AppendTag(b, fieldSegments, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, fieldIndex, protowire.VarintType)
	b = protowire.AppendVarint(b, s.Index)
	b = protowire.AppendTag(b, fieldOffset, protowire.VarintType)
	b = protowire.AppendVarint(b, s.Offset)
	b = protowire.AppendTag(b, fieldLength, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(s.Length))
	if !s.Undigested {
		b = protowire.AppendTag(b, fieldDigest, protowire.BytesType)
		b = protowire.AppendBytes(b, s.Digest[:])
	}
	b = appendNumber(b, fieldReused, uint32(s.Reused))
	b = appendNumber(b, fieldHoles, uint32(s.Holes))
	b = appendNumber(b, fieldRecordsBefore, s.Mark.Before)
	b = appendNumber(b, fieldRecords, s.Mark.Count)
	return b
}

func sizeNumber(n uint32) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(n))
}

func appendNumber(b []byte, field protowire.Number, n uint32) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}
