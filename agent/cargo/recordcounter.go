// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"context"
	"fmt"
)

// RecordCounter finds the records of a file that a Writer writes, from the plain bytes of its blocks. Blocks need not
// end at the borders of records.
type RecordCounter struct {
	split splitter
	marks []Mark
}

// NewRecordCounter returns one for a file that is empty so far.
func NewRecordCounter(records Records) *RecordCounter {
	return &RecordCounter{split: splitter{records: records}}
}

// Add takes the plain bytes of the next block, at least one. Those that are no such records are a *RecordError.
func (c *RecordCounter) Add(plain []byte) error {
	m, err := c.split.mark(plain)
	if err != nil {
		return err
	}
	c.marks = append(c.marks, m)
	return nil
}

// Index returns the index that Writer.Close returned with the numbers of the records.
func (c *RecordCounter) Index(of *Index) (*Index, error) {
	if len(c.marks) != of.Blocks() {
		return nil, fmt.Errorf("the records of %d blocks are known, of %d", len(c.marks), of.Blocks())
	}
	if err := c.split.finish(); err != nil {
		return nil, err
	}
	return of.withRecords(c.split.records, c.marks)
}

// SearchRecords returns the number of the first record, of those from one on up to another, for which wanted is true;
// it is false for all before and true for all behind. If it is true for none, the number is to. It reads the blocks of
// one record for each step of a binary search over blocks, and then those of one more.
func (r *Reader) SearchRecords(
	ctx context.Context, from, to int64, wanted func(record []byte) (bool, error),
) (int64, error) {
	known := r.index.known
	switch {
	case known == nil:
		return 0, fmt.Errorf("%w: the index does not know records", ErrNoRecord)
	case from < 0 || from > to || to > known.count():
		return 0, fmt.Errorf("%w: %d up to %d, of %d", ErrNoRecord, from, to, known.count())
	case from == to:
		return to, nil
	}
	// The record is before the first one that begins in block high or behind it, and not before that of block low.
	low, high := known.find(from), known.find(to-1)+1
	for low+1 < high {
		middle := low + (high-low)/2
		if known.begun[middle] >= to {
			high = middle
			continue
		}
		n, err := r.firstOf(ctx, known.begun[middle], known.begun[middle]+1, wanted)
		if err != nil {
			return 0, err
		}
		if n == known.begun[middle] {
			high = middle
		} else {
			low = middle
		}
	}
	return r.firstOf(ctx, max(from, known.begun[low]), min(to, known.begun[high]), wanted)
}

// firstOf looks at one record after the other.
func (r *Reader) firstOf(
	ctx context.Context, from, to int64, wanted func(record []byte) (bool, error),
) (int64, error) {
	n := from
	for record, err := range r.Records(ctx, from, to-from) {
		if err != nil {
			return 0, err
		}
		if is, err := wanted(record); is || err != nil {
			return n, err
		}
		n++
	}
	return to, nil
}
