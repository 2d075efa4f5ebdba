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

// maxMessage is the longest message in bytes: a block and what describes it, up to MaxSegments of some 50 bytes each.
const maxMessage = frame.MaxBlock + 512<<10

// The numbers of the fields in DataRequest.
const (
	fieldSession  = 1
	fieldSegments = 2
	fieldBlock    = 3
)

var (
	// ErrMalformed is the error of a message that came whole and is none.
	ErrMalformed = errors.New("malformed data message")

	errSegments = fmt.Errorf("%w: more than %d segments in a block", ErrMalformed, MaxSegments)
)

// Write writes the message with the block that a header and a payload make up. The payload is not copied.
func (m *DataMessage) Write(w io.Writer, header, payload []byte) error {
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
