// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"
)

// Tally adds up the blocks of a file that is being written, in their order. With the blocks, which it does not keep, it
// makes the end of the file and the index. Its zero value is of no form.
type Tally struct {
	form   Form
	blocks int
	plain  int64
	stored int64 // without what is before the first block and behind the last one
	crc    uint32

	// records that the file is to have, as far as it is known where they begin. unknown: it is not, so that the index
	// will know none.
	records Records
	unknown bool
	begun   int64 // records
	latest  int64 // where in the plain file the first record of the last block begins that has one
}

// NewTally returns the tally of a file without blocks, whose index knows no records.
func NewTally(form Form) *Tally { return NewRecordTally(form, Records{}) }

// NewRecordTally returns the tally of a file without blocks, whose index will know records if AddMarked is told about
// those of every block.
func NewRecordTally(form Form, records Records) *Tally { return &Tally{form: form, records: records} }

// Add adds the next block.
func (t *Tally) Add(b Block) {
	if t.form == Gzip {
		t.crc = combine(t.crc, uint32(b.sum), b.Plain())
	}
	t.blocks++
	t.plain, t.stored = t.plain+b.Plain(), t.stored+b.Stored()
}

// AddMarked adds the next block and what is known of its records. The errors, of what cannot be known of them, match
// ErrIndex and come before anything is added. Without records the mark means nothing.
func (t *Tally) AddMarked(b Block, m Mark) error {
	switch {
	case t.records.Layout == NoRecords:
	case m == Mark{}:
		t.unknown = true
	default:
		if err := t.records.check(m, t.plain, b.plain); err != nil {
			return fmt.Errorf("%w: block %d: %w", ErrIndex, t.blocks, err)
		}
		if m.Count > 0 {
			t.latest = t.plain + int64(m.Before)
		}
		t.begun += int64(m.Count)
	}
	t.Add(b)
	return nil
}

// EntrySize is the length in bytes of what Append appends.
func (t *Tally) EntrySize() int {
	if t.records.Layout == NoRecords {
		return indexEntry
	}
	return indexEntry + recordEntry
}

// Append appends what WriteIndex reads of a block.
func (t *Tally) Append(dst []byte, b Block, m Mark) []byte {
	if dst = b.Append(dst); t.records.Layout != NoRecords {
		dst = m.append(dst)
	}
	return dst
}

// ParseEntry reads what Append appended. Its errors match ErrIndex.
func (t *Tally) ParseEntry(e []byte) (b Block, m Mark, err error) {
	if len(e) != t.EntrySize() {
		return b, m, fmt.Errorf("%w: a block of %d bytes", ErrIndex, len(e))
	}
	if len(e) > indexEntry {
		m = parseMark(e[indexEntry:])
	}
	b, err = ParseBlock(t.form, e[:indexEntry])
	return b, m, err
}

// KnowsRecords reports whether the index will know records.
func (t *Tally) KnowsRecords() bool {
	return t.records.Layout != NoRecords && !t.unknown && t.records.divide(t.plain)
}

// LatestRecord returns an offset of the plain file at which a record begins, not far from the next block unless
// records are long. ok is false if it is not known of every block where records begin.
func (t *Tally) LatestRecord() (offset int64, ok bool) {
	return t.latest, t.records.Layout != NoRecords && !t.unknown
}

// Blocks returns how many blocks there are.
func (t *Tally) Blocks() int { return t.blocks }

// Next returns where in the file the next block or, after the last one, the end belongs.
func (t *Tally) Next() int64 { return t.form.before() + t.stored }

// Begin returns what a file has before its first block.
func (t *Tally) Begin() []byte { return []byte(gzipHeader)[:t.form.before()] }

// End returns what a file has behind its last block.
func (t *Tally) End() []byte {
	switch {
	case t.form == Gzip:
		return appendGzipEnd(nil, t.crc, t.plain)
	case t.blocks == 0 && t.form == Zstd:
		return []byte(zstdEmpty)
	default:
		return nil
	}
}

// Size returns the length in bytes of the file that rests, with its end.
func (t *Tally) Size() int64 { return t.form.length(t.stored) }

// WriteIndex writes the index of the file to an empty one and returns its length. blocks is what Append appended of
// each block, one after the other.
func (t *Tally) WriteIndex(to io.WriterAt, blocks io.ReaderAt) (int64, error) {
	version, entry, size := byte(indexVersion), indexEntry, t.EntrySize()
	if t.KnowsRecords() {
		version, entry = indexVersionRecords, size
	}
	buf := appendIndexHeader(nil, version, t.form, t.blocks, t.plain, t.Size())
	if version == indexVersionRecords {
		buf = t.records.appendHeader(buf, t.begun)
	}
	hash, done, read, left := xxh3.New(), int64(0), int64(0), int64(t.blocks)
	some := make([]byte, min(left, entriesAtOnce)*int64(size))
	for {
		some = some[:min(left, entriesAtOnce)*int64(size)]
		if got, err := blocks.ReadAt(some, read); got < len(some) {
			return 0, fmt.Errorf("read the blocks of an index: %w", err)
		}
		for e := range slices.Chunk(some, size) {
			buf = append(buf, e[:entry]...)
		}
		read += int64(len(some))
		left -= int64(len(some) / size)
		_, _ = hash.Write(buf)
		if left == 0 {
			buf = binary.BigEndian.AppendUint64(buf, hash.Sum64())
		}
		if _, err := to.WriteAt(buf, done); err != nil {
			return 0, fmt.Errorf("write an index: %w", err)
		}
		done += int64(len(buf))
		if left == 0 {
			return done, nil
		}
		buf = buf[:0]
	}
}

// entriesAtOnce is how many blocks WriteIndex holds in memory.
const entriesAtOnce = 2048

// checkedIndex is how long an index is at most that Sizes reads as a whole.
const checkedIndex = 16 << 10

// Sizes returns the lengths in bytes of the plain file and of the one that rests, and the records that are known, by
// an index of so many bytes. Of a long one it reads no more than the beginning. Errors of what is no index of the form
// match ErrIndex.
func Sizes(form Form, index io.ReaderAt, size int64) (plain, stored int64, records Records, err error) {
	if size < indexHeader+indexSum || size > MaxIndex {
		return 0, 0, records, fmt.Errorf("%w: it has %d bytes", ErrIndex, size)
	}
	b := make([]byte, indexHeader+recordHeader)
	if size <= checkedIndex {
		b = make([]byte, size)
	}
	if n, err := index.ReadAt(b, 0); n < len(b) {
		return 0, 0, records, fmt.Errorf("read an index: %w", err)
	}
	if size <= checkedIndex {
		i, err := ParseIndex(b)
		if err != nil {
			return 0, 0, records, err
		}
		if i.form != form {
			return 0, 0, records, fmt.Errorf("%w: it is of form %v", ErrIndex, i.form)
		}
		return i.Size(), i.StoredSize(), i.Records(), nil
	}
	count, plain, stored := binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:])),
		int64(binary.BigEndian.Uint64(b[24:]))
	header, entry, version := int64(indexHeader), int64(indexEntry), byte(indexVersion)
	if b[4] == indexVersionRecords {
		header, entry, version = header+recordHeader, entry+recordEntry, indexVersionRecords
		records = parseRecords(b[indexHeader:])
	}
	if count > MaxBlocks || size != header+int64(count)*entry+indexSum || plain < 0 || stored < 0 || !records.Valid() ||
		string(b[:8]) != string(appendIndexHeader(nil, version, form, 0, 0, 0)[:8]) {
		return 0, 0, Records{}, fmt.Errorf("%w: its beginning is none of form %v", ErrIndex, form)
	}
	return plain, stored, records, nil
}
