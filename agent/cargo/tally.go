// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"encoding/binary"
	"fmt"
	"io"

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
}

// NewTally returns the tally of a file without blocks.
func NewTally(form Form) *Tally { return &Tally{form: form} }

// Add adds the next block.
func (t *Tally) Add(b Block) {
	if t.form == Gzip {
		t.crc = combine(t.crc, uint32(b.sum), b.Plain())
	}
	t.blocks++
	t.plain, t.stored = t.plain+b.Plain(), t.stored+b.Stored()
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

// WriteIndex writes the index of the file to an empty one and returns its length. blocks is what Block.Append appended
// of each block, one after the other.
func (t *Tally) WriteIndex(to io.WriterAt, blocks io.ReaderAt) (int64, error) {
	left := int64(t.blocks) * indexEntry
	buf := make([]byte, 0, indexHeader+min(left, 64<<10)+indexSum)
	buf = appendIndexHeader(buf, indexVersion, t.form, t.blocks, t.plain, t.Size())
	hash, done, read := xxh3.New(), int64(0), int64(0)
	for {
		if n := min(left, int64(cap(buf)-len(buf)-indexSum)); n > 0 {
			chunk := buf[len(buf) : len(buf)+int(n)]
			if got, err := blocks.ReadAt(chunk, read); got < len(chunk) {
				return 0, fmt.Errorf("read the blocks of an index: %w", err)
			}
			buf, read, left = buf[:len(buf)+len(chunk)], read+n, left-n
		}
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

// checkedIndex is how long an index is at most that Sizes reads as a whole.
const checkedIndex = 16 << 10

// Sizes returns the lengths in bytes of the plain file and of the one that rests, by an index of so many bytes. Of a
// long one it reads no more than the beginning. Errors of what is no index of the form match ErrIndex.
func Sizes(form Form, index io.ReaderAt, size int64) (plain, stored int64, err error) {
	if size < indexHeader+indexSum || size > MaxIndex {
		return 0, 0, fmt.Errorf("%w: it has %d bytes", ErrIndex, size)
	}
	b := make([]byte, indexHeader)
	if size <= checkedIndex {
		b = make([]byte, size)
	}
	if n, err := index.ReadAt(b, 0); n < len(b) {
		return 0, 0, fmt.Errorf("read an index: %w", err)
	}
	if size <= checkedIndex {
		i, err := ParseIndex(b)
		if err != nil {
			return 0, 0, err
		}
		if i.form != form {
			return 0, 0, fmt.Errorf("%w: it is of form %v", ErrIndex, i.form)
		}
		return i.Size(), i.StoredSize(), nil
	}
	count, plain, stored := binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:])),
		int64(binary.BigEndian.Uint64(b[24:]))
	header, entry, version := int64(indexHeader), int64(indexEntry), byte(indexVersion)
	if b[4] == indexVersionRecords {
		header, entry, version = header+recordHeader, entry+recordEntry, indexVersionRecords
	}
	if count > MaxBlocks || size != header+int64(count)*entry+indexSum || plain < 0 || stored < 0 ||
		string(b[:8]) != string(appendIndexHeader(nil, version, form, 0, 0, 0)[:8]) {
		return 0, 0, fmt.Errorf("%w: its beginning is none of form %v", ErrIndex, form)
	}
	return plain, stored, nil
}
