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
	marks   []Mark
	// begun is how many records begin before each block, and in all.
	begun []int64
}

const (
	recordHeader = 16 // more bytes of the header
	recordEntry  = 8  // and of each block
)

// withRecords returns the index with what is known of its records. That the marks fit is checked.
func (i *Index) withRecords(records Records, marks []Mark) (*Index, error) {
	if records.Layout == NoRecords {
		return i, nil
	}
	if !records.Valid() {
		return nil, fmt.Errorf("%w: records: %v", ErrIndex, records)
	}
	r := &recordIndex{records: records, marks: marks, begun: make([]int64, len(marks)+1)}
	for n, m := range marks {
		if err := records.check(m, i.plain[n], i.blocks[n].plain); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrIndex, n, err)
		}
		r.begun[n+1] = r.begun[n] + int64(m.Count)
	}
	if !records.divide(i.Size()) {
		return nil, fmt.Errorf("%w: a file of %d bytes in records of %d", ErrIndex, i.Size(), records.Length)
	}
	with := *i
	with.known = r
	return &with, nil
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
		return fmt.Errorf("%w: in block %d %d records begin behind %d bytes, instead of %d behind %d", ErrIndex, n, m.Count,
			m.Before, want.Count, want.Before)
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

// MarkAt returns what the index knows of the records of the block of a plain range; the zero value: nothing, or no
// block has just this range.
func (i *Index) MarkAt(records Records, offset int64, length int) Mark {
	if _, ok := i.At(offset, length); !ok || i.known == nil || i.known.records != records {
		return Mark{}
	}
	return i.known.marks[i.find(offset)]
}

// CutAt reports whether all blocks have a length, but for the last one, which may be shorter.
func (i *Index) CutAt(length int64) bool {
	for n := range i.blocks {
		if i.plain[n] != int64(n)*length {
			return false
		}
	}
	return len(i.blocks) == 0 || i.blocks[len(i.blocks)-1].Plain() <= length
}

func (r Records) appendHeader(dst []byte, count int64) []byte {
	dst = append(dst, byte(r.Layout), 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Length))
	return binary.BigEndian.AppendUint64(dst, uint64(count))
}

func (m Mark) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.Before)
	return binary.BigEndian.AppendUint32(dst, m.Count)
}

func parseMark(b []byte) Mark {
	return Mark{Before: binary.BigEndian.Uint32(b), Count: binary.BigEndian.Uint32(b[4:])}
}

// parseRecords reads which records the header of version 2 says, unchecked.
func parseRecords(header []byte) Records {
	return Records{Layout: Layout(header[0]), Length: int(binary.BigEndian.Uint32(header[4:]))}
}

// parseRecords adds what the header of version 2 says of records to an index.
func (i *Index) parseRecords(header []byte, marks []Mark) (*Index, error) {
	records := parseRecords(header)
	if records.Layout == NoRecords || !records.Valid() || header[1]|header[2]|header[3] != 0 {
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
