// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrRecords says that a file does not consist of records of the kind that was given. Such errors are *RecordError.
var ErrRecords = errors.New("not a file of such records")

// RecordError says where a file stops to be one of records.
type RecordError struct {
	// Offset in the plain file in bytes.
	Offset int64
	// Reason completes "at byte N of the plain file: ".
	Reason string
}

// Error implements error.
func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: at byte %d of the plain file: %s", ErrRecords, e.Offset, e.Reason)
}

// Unwrap returns ErrRecords.
func (e *RecordError) Unwrap() error { return ErrRecords }

// Layout is how records are told apart. Its number is permanent.
type Layout uint8

// The layouts.
const (
	// NoRecords is of a file that has none.
	NoRecords Layout = 0
	// Lines end in a newline, which belongs to them. What follows the last newline is a record as well.
	Lines Layout = 1
	// Fixed records have one length (LRECL) without anything between them.
	Fixed Layout = 2
	// RDW records begin with a record descriptor word, which belongs to them: 2 bytes length, big-endian, 4 to 32,760
	// with the word, and 2 that are 0. Of a spanned record the third byte says which segment it is: 1 the first, 3 one
	// in the middle, 2 the last; all segments with their words are one record.
	RDW Layout = 3
)

const (
	// MaxFixed is the most bytes of a record of layout Fixed.
	MaxFixed = 1 << 30
	// MaxSegment is the most bytes of a record of layout RDW, or of a segment of one, with its word.
	MaxSegment = 32760

	rdwLength = 4
)

// Records describes the records of a plain file. The zero value is of a file without.
type Records struct {
	Layout Layout
	// Length of each record in bytes, 1 to MaxFixed; 0 unless the layout is Fixed.
	Length int
}

// ParseRecords reads what String returns: lines, fixed=LENGTH, rdw or none.
func ParseRecords(text string) (Records, error) {
	switch length, fixed := strings.CutPrefix(text, "fixed="); {
	case text == "none":
		return Records{}, nil
	case text == "lines":
		return Records{Layout: Lines}, nil
	case text == "rdw":
		return Records{Layout: RDW}, nil
	case fixed:
		n, err := strconv.Atoi(length)
		if r := (Records{Fixed, n}); err == nil && r.Valid() {
			return r, nil
		}
		return Records{}, fmt.Errorf("records of length %q: write fixed=N, where N is 1 to %d bytes", length, MaxFixed)
	}
	return Records{}, fmt.Errorf("records %q: write lines, fixed=N, rdw or none", text)
}

// String returns the records as ParseRecords reads them.
func (r Records) String() string {
	switch r.Layout {
	case NoRecords:
		return "none"
	case Lines:
		return "lines"
	case Fixed:
		return fmt.Sprintf("fixed=%d", r.Length)
	case RDW:
		return "rdw"
	default:
		return fmt.Sprintf("layout %d", uint8(r.Layout))
	}
}

// Valid reports whether there are such records; those of the zero value are none at all.
func (r Records) Valid() bool {
	if r.Layout == Fixed {
		return r.Length >= 1 && r.Length <= MaxFixed
	}
	return r.Layout <= RDW && r.Length == 0
}

// splitter finds where records end. Its zero value with records is at the beginning of a file. A copy is a place to
// return to.
type splitter struct {
	records Records
	at      int64 // in the file
	within  bool  // a record was begun and has not ended
	left    int   // bytes of a fixed record, or of a segment
	spanned bool  // segments of the record came before
	ends    bool  // the record ends with the segment
	word    [rdwLength]byte
	have    int // bytes of the word; all of it: within a segment
}

// next takes bytes up to the end of a record, or all of them if none ends in them. It takes at least one of those that
// there are.
func (s *splitter) next(b []byte) (n int, ended bool, err error) {
	switch s.records.Layout {
	case Lines:
		n = bytes.IndexByte(b, '\n') + 1
		if ended = n > 0; !ended {
			n = len(b)
		}
	case Fixed:
		if s.left == 0 {
			s.left = s.records.Length
		}
		n = min(s.left, len(b))
		s.left -= n
		ended = s.left == 0
	case RDW:
		n, ended, err = s.nextSegments(b)
	default:
		n = len(b)
	}
	s.at += int64(n)
	s.within = !ended && (s.within || n > 0)
	return n, ended, err
}

// nextSegments is next for records with words.
func (s *splitter) nextSegments(b []byte) (n int, ended bool, err error) {
	for {
		if s.have < rdwLength {
			taken := copy(s.word[s.have:], b[n:])
			n, s.have = n+taken, s.have+taken
			if s.have < rdwLength {
				return n, false, nil
			}
			if err := s.parseWord(s.at + int64(n) - rdwLength); err != nil {
				return n, false, err
			}
		}
		taken := min(s.left, len(b)-n)
		n, s.left = n+taken, s.left-taken
		if s.left > 0 {
			return n, false, nil
		}
		s.have, s.spanned = 0, !s.ends
		if s.ends {
			return n, true, nil
		}
	}
}

// parseWord reads the word that came last.
func (s *splitter) parseWord(offset int64) error {
	const complete, first, last, middle = 0, 1, 2, 3
	length, segment := int(binary.BigEndian.Uint16(s.word[:])), s.word[2]
	wrong := func(format string, args ...any) error {
		return &RecordError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case length < rdwLength || length > MaxSegment:
		return wrong("a record descriptor word with a length of %d; it must be %d to %d", length, rdwLength, MaxSegment)
	case segment > middle || s.word[3] != 0:
		return wrong("a record descriptor word that ends in %02x %02x", segment, s.word[3])
	case s.spanned && (segment == complete || segment == first):
		return wrong("a record begins before the last segment of the one before")
	case !s.spanned && (segment == last || segment == middle):
		return wrong("a segment without the first one of its record")
	}
	s.left = length - rdwLength
	s.ends = segment == complete || segment == last
	return nil
}

// finish is called at the end of the file.
func (s *splitter) finish() error {
	if !s.within || s.records.Layout == NoRecords || s.records.Layout == Lines {
		return nil
	}
	if s.records.Layout == Fixed {
		return &RecordError{
			Offset: s.at,
			Reason: fmt.Sprintf("the file ends within a record, because its size is no multiple of %d", s.records.Length),
		}
	}
	return &RecordError{Offset: s.at, Reason: "the file ends within a record"}
}

// Mark is what an index knows of the records of a block. Of a block that has bytes, the zero value says that nothing is
// known.
type Mark struct {
	// Before is how many bytes of the block belong to a record that began before it.
	Before uint32
	// Count is how many records begin in it, the first of them behind these bytes. It is 0 if these are all.
	Count uint32
}

// check verifies what the records can be of a block of plain bytes that begins at an offset of the file.
func (r Records) check(m Mark, begin int64, plain uint32) error {
	rest := int64(plain) - int64(m.Before)
	least := int64(1) // bytes of a record
	switch {
	case m.Before > plain || begin == 0 && m.Before > 0 || (m.Count == 0) != (rest == 0):
		return fmt.Errorf("%d records begin behind %d of %d bytes", m.Count, m.Before, plain)
	case r.Layout == Fixed:
		if m != r.fixed(begin, int64(plain)) {
			return fmt.Errorf("%d records of %d bytes begin behind %d", m.Count, r.Length, m.Before)
		}
	case r.Layout == RDW:
		least = rdwLength
	}
	// The last one may have begun only.
	if int64(m.Count) > (rest+least-1)/least {
		return fmt.Errorf("%d records in %d bytes", m.Count, rest)
	}
	return nil
}

// fixed returns the mark of a block of plain bytes, at an offset of a file of records of layout Fixed.
func (r Records) fixed(begin, plain int64) Mark {
	length := int64(r.Length)
	before, until := (begin+length-1)/length, (begin+plain+length-1)/length
	if before == until {
		return Mark{Before: uint32(plain)}
	}
	return Mark{Before: uint32(before*length - begin), Count: uint32(until - before)}
}

// divide reports whether a file of so many bytes can consist of the records.
func (r Records) divide(size int64) bool { return r.Layout != Fixed || size%int64(r.Length) == 0 }

// mark takes a whole block.
func (s *splitter) mark(b []byte) (m Mark, err error) {
	if s.records.Layout == Lines && len(b) > 0 {
		return s.markLines(b), nil
	}
	for n := 0; n < len(b); {
		if !s.within {
			if m.Count == 0 {
				m.Before = uint32(n)
			}
			m.Count++
		}
		taken, _, err := s.next(b[n:])
		if err != nil {
			return m, err
		}
		n += taken
	}
	if m.Count == 0 {
		m.Before = uint32(len(b))
	}
	return m, nil
}

// markLines is mark for lines, which are counted at once.
func (s *splitter) markLines(b []byte) (m Mark) {
	behind := b
	if s.within {
		_, behind, _ = bytes.Cut(b, []byte{'\n'})
	}
	m.Before = uint32(len(b) - len(behind))
	s.at, s.within = s.at+int64(len(b)), b[len(b)-1] != '\n'
	if m.Count = uint32(bytes.Count(behind, []byte{'\n'})); s.within && len(behind) > 0 {
		m.Count++
	}
	return m
}

// skip returns how many bytes the first records of b have, which begins with one.
func (r Records) skip(b []byte, count int64) (int, error) {
	if r.Layout == Fixed {
		if int64(len(b)) < count*int64(r.Length) {
			return 0, fmt.Errorf("%w: a block has fewer than %d records", ErrIndex, count)
		}
		return int(count) * r.Length, nil
	}
	s, n := splitter{records: r}, 0
	for range count {
		taken, ended, err := s.next(b[n:])
		if n += taken; err != nil || !ended {
			return 0, fmt.Errorf("%w: a block has fewer than %d records", ErrIndex, count)
		}
	}
	return n, nil
}
