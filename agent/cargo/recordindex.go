// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// recordIndex is the part of an index that knows records. Its bytes, big-endian, follow the header of version 2, and
// each block has 8 bytes more:
//
//	offset length
//	    32      1  layout of the records
//	    33      3  0
//	    36      4  length of each record of layout Fixed, else 0
//	    40      8  number of records
//	    48     32  for each block: the 24 of version 1, 4 bytes how many of the block's bytes belong to a record that
//	               began before it, 4 bytes how many records begin in it
type recordIndex struct {
	records Records
	marks   []mark
	// begun is how many records begin before each block, and in all.
	begun []int64
}

const (
	recordHeader = 16 // more bytes of the header
	recordEntry  = 8  // and of each block
)

// withRecords returns the index with what is known of its records. That the marks fit is checked.
func (i *Index) withRecords(records Records, marks []mark) (*Index, error) {
	if records.Layout == NoRecords {
		return i, nil
	}
	if !records.valid() {
		return nil, fmt.Errorf("%w: records: %v", ErrIndex, records)
	}
	r := &recordIndex{records: records, marks: marks, begun: make([]int64, len(marks)+1)}
	for n, m := range marks {
		if err := r.check(i, n); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrIndex, n, err)
		}
		r.begun[n+1] = r.begun[n] + int64(m.count)
	}
	if records.Layout == Fixed && i.Size()%int64(records.Length) != 0 {
		return nil, fmt.Errorf("%w: a file of %d bytes in records of %d", ErrIndex, i.Size(), records.Length)
	}
	with := *i
	with.known = r
	return &with, nil
}

// check verifies what a block's records can be.
func (r *recordIndex) check(i *Index, n int) error {
	m, plain := r.marks[n], i.blocks[n].plain
	begin, end, rest := i.plain[n], i.plain[n+1], int64(plain)-int64(m.before)
	least := int64(1) // bytes of a record
	switch {
	case m.before > plain || n == 0 && m.before > 0 || (m.count == 0) != (rest == 0):
		return fmt.Errorf("%d records begin behind %d of %d bytes", m.count, m.before, plain)
	case r.records.Layout == Fixed:
		length := int64(r.records.Length)
		before, until := (begin+length-1)/length, (end+length-1)/length
		if int64(m.count) != until-before || m.count > 0 && before*length-begin != int64(m.before) {
			return fmt.Errorf("%d records of %d bytes begin behind %d", m.count, length, m.before)
		}
	case r.records.Layout == RDW:
		least = rdwLength
	}
	// The last one may have begun only.
	if int64(m.count) > (rest+least-1)/least {
		return fmt.Errorf("%d records in %d bytes", m.count, rest)
	}
	return nil
}

// count is how many records there are.
func (r *recordIndex) count() int64 { return r.begun[len(r.marks)] }

// find returns the block in which a record begins that there is.
func (r *recordIndex) find(record int64) int {
	return sort.Search(len(r.marks), func(n int) bool { return r.begun[n+1] > record })
}

// checkMark compares what is known of the records of a block with its plain bytes, which come block by block.
func (i *Index) checkMark(split *splitter, plain []byte, n int) error {
	if i.known == nil {
		return nil
	}
	m, err := split.mark(plain)
	if err != nil {
		return err
	}
	if want := i.known.marks[n]; m != want {
		return fmt.Errorf("%w: in block %d %d records begin behind %d bytes, instead of %d behind %d", ErrIndex, n, m.count,
			m.before, want.count, want.before)
	}
	return nil
}

// Records describes the records of the file.
func (i *Index) Records() Records {
	if i.known == nil {
		return Records{}
	}
	return i.known.records
}

// RecordCount returns how many records the file has; 0 if the index knows none.
func (i *Index) RecordCount() int64 {
	if i.known == nil {
		return 0
	}
	return i.known.count()
}

func (r *recordIndex) appendHeader(dst []byte) []byte {
	dst = append(dst, byte(r.records.Layout), 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.records.Length))
	return binary.BigEndian.AppendUint64(dst, uint64(r.count()))
}

func (m mark) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.before)
	return binary.BigEndian.AppendUint32(dst, m.count)
}

func parseMark(b []byte) mark {
	return mark{before: binary.BigEndian.Uint32(b), count: binary.BigEndian.Uint32(b[4:])}
}

// parseRecords adds what the header of version 2 says of records to an index.
func (i *Index) parseRecords(header []byte, marks []mark) (*Index, error) {
	records := Records{Layout: Layout(header[0]), Length: int(binary.BigEndian.Uint32(header[4:]))}
	if records.Layout == NoRecords || !records.valid() || header[1]|header[2]|header[3] != 0 {
		return nil, fmt.Errorf("%w: records: %v", ErrIndex, records)
	}
	with, err := i.withRecords(records, marks)
	if err != nil {
		return nil, err
	}
	if count := binary.BigEndian.Uint64(header[8:]); count != uint64(with.RecordCount()) {
		return nil, fmt.Errorf("%w: %d records of which blocks have %d", ErrIndex, count, with.RecordCount())
	}
	return with, nil
}
