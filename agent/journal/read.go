// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// load reads the journal in j.file. Only what a crash may have left at the end is dropped.
func (j *Journal) load() error {
	size, err := j.file.Size()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if size > maxSize {
		return damaged("it has %d bytes, more than %d", size, int64(maxSize))
	}
	if err := j.loadHeader(size); err != nil {
		return err
	}
	var buf []byte
	for j.sequence = 1; j.end < size; j.sequence++ {
		length := batchFixed
		if buf, err = j.readUpTo(buf, length, size); err != nil {
			return err
		}
		if len(buf) == batchFixed {
			length += int(min(binary.BigEndian.Uint32(buf[4:]), maxBatch))
		}
		if buf, err = j.readUpTo(buf, length, size); err != nil {
			return err
		}
		records, whole := batch(buf, j.sequence)
		if !whole {
			if err := j.tail(size); err != nil {
				return err
			}
			break
		}
		if err := j.apply(records); err != nil {
			return err
		}
		j.end += int64(len(buf))
	}
	return j.checkOverlaps()
}

// readUpTo reads at most n bytes from j.end on, into buf if they fit.
func (j *Journal) readUpTo(buf []byte, n int, size int64) ([]byte, error) {
	b := slices.Grow(buf[:0], n)[:min(int64(n), size-j.end)]
	if n, err := j.file.ReadAt(b, j.end); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return b, nil
}

func (j *Journal) loadHeader(size int64) error {
	b, err := j.readUpTo(nil, headerFixed+4+4+2+maxName+2+maxName+checksum, size)
	if err != nil {
		return err
	}
	if len(b) < headerFixed || string(b[:8]) != magic {
		return damaged("it does not begin as one")
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != version {
		return fmt.Errorf("%w: %d", ErrVersion, v)
	}
	length := int(binary.BigEndian.Uint16(b[10:]))
	end := headerFixed + length
	if end+checksum > len(b) || binary.BigEndian.Uint64(b[end:]) != xxh3.Hash(b[:end]) {
		return damaged("its header is not whole")
	}
	r := reader{b: b[headerFixed:end]}
	r.uint32() // Any attempt,
	chunk := r.uint32()
	run, sender := string(r.bytes(int(r.uint16()))), string(r.bytes(int(r.uint16()))) // and any run of the Transfer.
	if r.short || len(r.b) > 0 {
		return damaged("its header has another length")
	}
	if sender != j.header.Sender || chunk != j.header.ChunkSize {
		return fmt.Errorf("%w: run %q of %q with chunks of %d bytes", ErrOther, run, sender, chunk)
	}
	j.end = int64(end + checksum)
	return nil
}

// batch returns the records of the batch that b begins with.
func batch(b []byte, sequence uint64) (records []byte, whole bool) {
	if len(b) < batchFixed || string(b[:4]) != batchMagic || binary.BigEndian.Uint64(b[8:]) != sequence {
		return nil, false
	}
	length := binary.BigEndian.Uint32(b[4:])
	if length == 0 || length > maxBatch || int(length) > len(b)-batchFixed {
		return nil, false
	}
	b = b[:batchFixed+int(length)]
	if binary.BigEndian.Uint64(b[16:]) != batchSum(b) {
		return nil, false
	}
	return b[batchFixed:], true
}

// maxCandidates bounds the search for batches in what a crash may have left.
const maxCandidates = 64

// tail decides whether the batch at j.end, which is not whole, was the last one that was being written.
func (j *Journal) tail(size int64) error {
	sequence := j.sequence
	if size-j.end > batchFixed+maxBatch {
		return damaged("batch %d is not whole", sequence)
	}
	b, err := j.readUpTo(nil, int(size-j.end), size)
	if err != nil {
		return err
	}
	for range maxCandidates {
		i := bytes.Index(b[1:], []byte(batchMagic))
		if i < 0 {
			return nil
		}
		if b = b[1+i:]; len(b) < batchFixed {
			return nil
		}
		next := binary.BigEndian.Uint64(b[8:])
		if _, whole := batch(b, next); whole && next >= sequence {
			return damaged("batch %d is not whole, but %d after it is", sequence, next)
		}
	}
	return damaged("batch %d is not whole and hides others", sequence)
}

// apply takes over the records of a batch, which is at j.end.
func (j *Journal) apply(records []byte) error {
	r := reader{b: records}
	for len(r.b) > 0 {
		switch kind := r.uint8(); kind {
		case recordFile:
			if err := j.applyFile(&r); err != nil {
				return err
			}
		case recordRange:
			if err := j.applyRange(&r, len(records)); err != nil {
				return err
			}
		case recordDone:
			number := r.uint64()
			if r.short {
				return damaged("a record is truncated")
			}
			if j.files[number] == nil {
				return damaged("file %d is finished without having begun", number)
			}
			j.forget(number)
		default:
			return damaged("it has a record of kind %d", kind)
		}
	}
	if j.cost > maxState || j.live > maxSize/2 {
		return damaged("it tells of more than an agent keeps")
	}
	return nil
}

func (j *Journal) applyFile(r *reader) error {
	e := Entry{
		Number: r.uint64(), Size: int64(r.uint64()), Modified: int64(r.uint64()), Changed: int64(r.uint64()),
		Mode: r.uint32(),
	}
	length := int(r.uint16())
	e.Path = string(r.bytes(length))
	switch _, known := j.paths[e.Path]; {
	case r.short:
		return damaged("a record is truncated")
	case e.Size <= 0 || length == 0 || length > maxPath || e.Number > MaxNumber:
		return damaged("file %d has %d bytes and a path of %d", e.Number, e.Size, length)
	case known || j.files[e.Number] != nil:
		return damaged("file %d begins twice", e.Number)
	}
	j.files[e.Number] = &state{Entry: e}
	j.paths[e.Path] = e.Number
	j.cost += fileCost + int64(len(e.Path))
	j.live += fileSize(e.Path)
	return nil
}

func (j *Journal) applyRange(r *reader, total int) error {
	number, first, count := r.uint64(), int64(r.uint64()), int64(r.uint32())
	at := j.end + batchFixed + int64(total-len(r.b))
	if count > maxChunks {
		return damaged("a range of %d chunks", count)
	}
	r.bytes(int(count) * DigestSize)
	s := j.files[number]
	switch {
	case r.short:
		return damaged("a record is truncated")
	case s == nil:
		return damaged("a range of file %d, which has not begun", number)
	}
	chunk := int64(j.header.ChunkSize)
	chunks := s.Size / chunk
	if s.Size%chunk != 0 {
		chunks++
	}
	if first < 0 || count == 0 || first > chunks-count {
		return damaged("a range of %d chunks from %d in a file of %d", count, first, chunks)
	}
	s.spans = append(s.spans, span{Range: Range{first, count}, at: at})
	j.cost += spanCost
	j.live += 1 + 8 + 8 + 4 + count*DigestSize
	return nil
}

// checkOverlaps makes sure that no chunk is recorded twice.
func (j *Journal) checkOverlaps() error {
	for number, s := range j.files {
		var end int64
		for _, r := range s.sorted() {
			if r.First < end {
				return damaged("chunk %d of file %d comes twice", r.First, number)
			}
			end = r.First + r.Count
		}
	}
	return nil
}

// sorted sorts the ranges and returns them.
func (s *state) sorted() []span {
	slices.SortFunc(s.spans, func(a, b span) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		default:
			return 0
		}
	})
	return s.spans
}

// reader takes fields off the front of a slice. After it was too short once, all fields are empty.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.b, r.short = nil, true
	}
	if r.short {
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}
