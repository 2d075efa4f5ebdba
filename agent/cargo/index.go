// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/frame"
)

const (
	// MaxBlocks is how many blocks a file has at most: 4 TiB in blocks of 1 MiB.
	MaxBlocks = 1 << 22
	// MaxIndex is the length in bytes of the longest index. Who reads one reads no more.
	MaxIndex = indexHeader + recordHeader + MaxBlocks*(indexEntry+recordEntry) + indexSum

	indexMagic          = 0x4c474349 // "LGCI"
	indexVersion        = 1
	indexVersionRecords = 2
	indexHeader         = 32
	indexEntry          = 24
	indexSum            = 8
)

// Index tells where the blocks of a file rest. It does not change.
//
// Its bytes, big-endian:
//
//	offset length
//	     0      4  magic "LGCI"
//	     4      1  version: 1, or 2 if it knows records
//	     5      1  form
//	     6      2  0
//	     8      8  number of blocks
//	    16      8  length of the plain file
//	    24      8  length of the file that rests
//	    32     24  for each block: 4 bytes length of the plain block, 4 bytes of that which rests, 8 bytes checksum of
//	               the plain block (Gzip: CRC-32; else XXH3-64), 8 bytes XXH3-64 of what rests
//	     .      8  XXH3-64 of everything before
//
// There are no offsets: blocks follow one another, so they can neither overlap nor leave anything out. Version 2 has 16
// bytes more in its header and 8 more for each block, at the end of either: what is known of records.
type Index struct {
	form   Form
	blocks []Block
	// plain and stored are the offsets at which blocks begin, and those at which the last one ends.
	plain, stored []int64
	known         *recordIndex // nil: the file has no records, or the index does not know them
}

// Block is what an index has of one.
type Block struct {
	plain, stored uint32
	sum           uint64 // of the plain bytes
	storedSum     uint64
}

// BlockSize is the length in bytes of a block in an index.
const BlockSize = indexEntry

// BlocksIn returns how many blocks an index of so many bytes has that knows no records.
func BlocksIn(index int64) int64 { return max(index-indexHeader-indexSum, 0) / indexEntry }

// Plain returns the length of the plain block in bytes.
func (b Block) Plain() int64 { return int64(b.plain) }

// Stored returns how many bytes rest of the block.
func (b Block) Stored() int64 { return int64(b.stored) }

// Holds reports whether bytes are those that rest of the block.
func (b Block) Holds(rest []byte) bool {
	return len(rest) == int(b.stored) && xxh3.Hash(rest) == b.storedSum
}

// Append appends the bytes that an index has of the block.
func (b Block) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, b.plain)
	dst = binary.BigEndian.AppendUint32(dst, b.stored)
	dst = binary.BigEndian.AppendUint64(dst, b.sum)
	return binary.BigEndian.AppendUint64(dst, b.storedSum)
}

// ParseBlock reads what an index of a form has of a block, from BlockSize bytes. Its errors match ErrIndex.
func ParseBlock(form Form, e []byte) (Block, error) {
	if len(e) != indexEntry {
		return Block{}, fmt.Errorf("%w: a block of %d bytes", ErrIndex, len(e))
	}
	b := Block{
		plain: binary.BigEndian.Uint32(e), stored: binary.BigEndian.Uint32(e[4:]), sum: binary.BigEndian.Uint64(e[8:]),
		storedSum: binary.BigEndian.Uint64(e[16:]),
	}
	if err := b.check(form); err != nil {
		return Block{}, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	return b, nil
}

// newIndex returns an index of blocks whose lengths are within their bounds.
func newIndex(form Form, blocks []Block) *Index {
	i := &Index{form: form, blocks: blocks, plain: make([]int64, len(blocks)+1), stored: make([]int64, len(blocks)+1)}
	i.stored[0] = form.before()
	for n, b := range blocks {
		i.plain[n+1], i.stored[n+1] = i.plain[n]+int64(b.plain), i.stored[n]+int64(b.stored)
	}
	return i
}

// Form returns the form of the file.
func (i *Index) Form() Form { return i.form }

// Blocks returns how many blocks the file has.
func (i *Index) Blocks() int { return len(i.blocks) }

// Block returns what the index has of a block.
func (i *Index) Block(n int) Block { return i.blocks[n] }

// At returns the block of a plain range; ok is false if no block has just this range.
func (i *Index) At(offset int64, length int) (b Block, ok bool) {
	if offset < 0 || offset >= i.Size() {
		return b, false
	}
	n := i.find(offset)
	b = i.blocks[n]
	return b, i.plain[n] == offset && int64(b.plain) == int64(length)
}

// Size returns the length of the plain file in bytes.
func (i *Index) Size() int64 { return i.plain[len(i.blocks)] }

// StoredSize returns the length in bytes of the file that rests.
func (i *Index) StoredSize() int64 { return i.form.length(i.stored[len(i.blocks)] - i.form.before()) }

// find returns the block with the byte at an offset of the plain file, which has it.
func (i *Index) find(offset int64) int {
	return sort.Search(len(i.blocks), func(n int) bool { return i.plain[n+1] > offset })
}

// crc32 returns the CRC-32 of the plain file, of form Gzip.
func (i *Index) crc32() uint32 {
	var sum uint32
	for _, b := range i.blocks {
		sum = combine(sum, uint32(b.sum), int64(b.plain))
	}
	return sum
}

// end returns what a file has behind its last block.
func (i *Index) end() []byte {
	switch {
	case i.form == Gzip:
		return appendGzipEnd(nil, i.crc32(), i.Size())
	case len(i.blocks) == 0 && i.form == Zstd:
		return []byte(zstdEmpty)
	default:
		return nil
	}
}

// Append appends the index's bytes to dst.
func (i *Index) Append(dst []byte) []byte {
	start := len(dst)
	version := byte(indexVersion)
	if i.known != nil {
		version = indexVersionRecords
	}
	dst = appendIndexHeader(dst, version, i.form, len(i.blocks), i.Size(), i.StoredSize())
	if i.known != nil {
		dst = i.known.records.appendHeader(dst, i.known.count())
	}
	for n, b := range i.blocks {
		dst = b.Append(dst)
		if i.known != nil {
			dst = i.known.marks[n].append(dst)
		}
	}
	return binary.BigEndian.AppendUint64(dst, xxh3.Hash(dst[start:]))
}

func appendIndexHeader(dst []byte, version byte, form Form, blocks int, plain, stored int64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, indexMagic)
	dst = append(dst, version, byte(form), 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(blocks))
	dst = binary.BigEndian.AppendUint64(dst, uint64(plain))
	return binary.BigEndian.AppendUint64(dst, uint64(stored))
}

// ParseIndex reads an index, which takes no more memory than twice its bytes. Its errors match ErrIndex. That an index
// is valid does not make it the index of a file.
func ParseIndex(b []byte) (*Index, error) {
	if len(b) < indexHeader+indexSum || len(b) > MaxIndex {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrIndex, len(b))
	}
	if binary.BigEndian.Uint32(b) != indexMagic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrIndex)
	}
	// The checksum belongs to these versions; another may keep it elsewhere.
	header, entry := indexHeader, indexEntry
	switch b[4] {
	case indexVersion:
	case indexVersionRecords:
		header, entry = indexHeader+recordHeader, indexEntry+recordEntry
	default:
		return nil, fmt.Errorf("%w: version %d; this program reads versions 1 and 2", ErrIndex, b[4])
	}
	if len(b) < header+indexSum {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrIndex, len(b))
	}
	body, sum := b[:len(b)-indexSum], binary.BigEndian.Uint64(b[len(b)-indexSum:])
	if xxh3.Hash(body) != sum {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrIndex)
	}
	form, entries := Form(b[5]), body[header:]
	if form < Gzip || form > Plain || b[6] != 0 || b[7] != 0 {
		return nil, fmt.Errorf("%w: %v", ErrIndex, form)
	}
	count := binary.BigEndian.Uint64(b[8:])
	if len(entries)%entry != 0 || count != uint64(len(entries)/entry) || count > MaxBlocks {
		return nil, fmt.Errorf("%w: %d blocks in %d bytes", ErrIndex, count, len(entries))
	}
	blocks := make([]Block, count)
	var marks []Mark
	if entry > indexEntry {
		marks = make([]Mark, count)
	}
	for n := range blocks {
		var err error
		e := entries[n*entry : (n+1)*entry]
		if blocks[n], err = ParseBlock(form, e[:indexEntry]); err != nil {
			return nil, fmt.Errorf("block %d: %w", n, err)
		}
		if marks != nil {
			marks[n] = parseMark(e[indexEntry:])
		}
	}
	i := newIndex(form, blocks)
	if plain := binary.BigEndian.Uint64(b[16:]); plain != uint64(i.Size()) {
		return nil, fmt.Errorf("%w: blocks of %d bytes in a file of %d", ErrIndex, i.Size(), plain)
	}
	if stored := binary.BigEndian.Uint64(b[24:]); stored != uint64(i.StoredSize()) {
		return nil, fmt.Errorf("%w: blocks that rest in %d bytes in a file of %d", ErrIndex, i.StoredSize(), stored)
	}
	if marks != nil {
		return i.parseRecords(b[indexHeader:], marks)
	}
	return i, nil
}

// check verifies that the lengths of a block are within their bounds, which decide how much is allocated to read it.
func (b Block) check(form Form) error {
	switch {
	case b.plain == 0 || b.plain > frame.MaxPlain:
		return fmt.Errorf("%d plain bytes", b.plain)
	case b.stored == 0 || int64(b.stored) > int64(form.mostStored(int(b.plain))):
		return fmt.Errorf("%d plain bytes that rest in %d", b.plain, b.stored)
	case form == Gzip && b.sum > math.MaxUint32:
		return errors.New("a CRC-32 of more than 32 bits")
	}
	return nil
}
