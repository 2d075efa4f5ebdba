// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/identity"
)

// Reader reads a file that rests, in part or as a whole. What it returns has been checked: the bytes that rest, and
// those that they expand to. It is safe for concurrent use, one call after the other.
type Reader struct {
	file    io.ReaderAt
	index   *Index
	engines *codec.Registry

	mu      sync.Mutex
	inflate inflater
	stored  []byte
	// plain is what block held expands to; -1: none.
	plain []byte
	held  int
}

// NewReader returns a reader of a file of so many bytes, which must be closed. An index of a file of another length is
// ErrIndex.
func NewReader(file io.ReaderAt, size int64, index *Index, engines *codec.Registry) (*Reader, error) {
	if want := index.StoredSize(); size != want {
		return nil, fmt.Errorf("%w: it is of a file of %d bytes, and this one has %d", ErrIndex, want, size)
	}
	inflate, err := newInflater(index.form, engines)
	if err != nil {
		return nil, err
	}
	return &Reader{file: file, index: index, engines: engines, inflate: inflate, held: -1}, nil
}

// ReadAt implements io.ReaderAt for the plain file. It expands the blocks that it needs, and keeps the last one.
func (r *Reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at %d: a negative offset", offset)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		if at >= r.index.Size() {
			return n, io.EOF
		}
		i := r.index.find(at)
		if err := r.hold(i); err != nil {
			return n, err
		}
		n += copy(p[n:], r.plain[at-r.index.plain[i]:])
	}
	return n, nil
}

// hold expands a block, unless it is held.
func (r *Reader) hold(i int) error {
	if r.held == i {
		return nil
	}
	r.held = -1
	if err := r.load(i); err != nil {
		return err
	}
	if err := r.expand(i); err != nil {
		return err
	}
	r.held = i
	return nil
}

// load reads and checks what rests of a block.
func (r *Reader) load(i int) error {
	r.stored = r.index.storedBuffer(r.stored, i)
	if err := readAt(r.file, r.stored, r.index.stored[i]); err != nil {
		return fmt.Errorf("read block %d: %w", i, err)
	}
	return r.index.checkStored(r.stored, i)
}

// expand expands the block that was loaded, and checks it.
func (r *Reader) expand(i int) (err error) {
	r.plain, err = r.index.expand(&r.inflate, r.plain, &r.stored, i)
	return err
}

// storedBuffer returns a buffer for what rests of a block, with space for what decoders need behind it.
func (i *Index) storedBuffer(buf []byte, n int) []byte {
	length := int(i.blocks[n].stored)
	return slices.Grow(buf[:0], length+len(codec.JoinEnd))[:length]
}

// checkStored checks what rests of a block.
func (i *Index) checkStored(stored []byte, n int) error {
	if i.form == Gzip && !bytes.HasSuffix(stored, []byte(flush[1:])) {
		return fmt.Errorf("%w: block %d does not end in a flush", ErrCorrupt, n)
	}
	if xxh3.Hash(stored) != i.blocks[n].storedSum {
		return fmt.Errorf("%w: the %d bytes at %d, of block %d, are not those that were written", ErrCorrupt, len(stored),
			i.stored[n], n)
	}
	return nil
}

// expand expands what rests of a block into a buffer, and checks it. The bytes that rest are those that the index was
// made with, so that where the plain bytes are others the index is ErrIndex.
func (i *Index) expand(inflate *inflater, buf []byte, stored *[]byte, block int) ([]byte, error) {
	b := i.blocks[block]
	plain := slices.Grow(buf[:0], int(b.plain))[:b.plain]
	n, err := inflate.block(plain, stored)
	if err != nil {
		return plain, fmt.Errorf("expand block %d: %w", block, err)
	}
	if n != len(plain) {
		return plain, fmt.Errorf("%w: block %d has %d bytes instead of %d", ErrIndex, block, n, len(plain))
	}
	if inflate.form.sum(plain) != b.sum {
		return plain, fmt.Errorf("%w: the plain bytes of block %d are others than it says", ErrIndex, block)
	}
	return plain, nil
}

// Scrub reads the file and compares all of it with the index: header, what rests of every block, and end. Of form Gzip
// the end has the CRC-32 of the whole, which the index's must add up to. With inflate it expands every block and
// compares the plain bytes as well, and the numbers of records. What is found wrong is ErrCorrupt, or ErrRecords.
func (r *Reader) Scrub(ctx context.Context, inflate bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.index.CheckEnds(r.file); err != nil {
		return err
	}
	split := splitter{records: r.index.Records()}
	for i := range r.index.blocks {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("scrub block %d: %w", i, err)
		}
		if err := r.load(i); err != nil {
			return err
		}
		if !inflate {
			continue
		}
		r.held = -1 // expand overwrites it
		if err := r.expand(i); err != nil {
			return err
		}
		if err := r.index.checkMark(&split, r.plain, i); err != nil {
			return err
		}
	}
	return split.finish()
}

// readAt fills p. A file that ends before it should is ErrCorrupt: it was truncated since its length was looked up.
func readAt(file io.ReaderAt, p []byte, offset int64) error {
	n, err := file.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends at byte %d", ErrCorrupt, offset+int64(n))
	default:
		return err
	}
}

// Close frees what the reader holds outside of Go's memory. It does not close the file.
func (r *Reader) Close() error { return r.inflate.decoder.Close() }

// inflater expands blocks of a form.
type inflater struct {
	form    Form
	decoder codec.Decoder
}

func newInflater(form Form, engines *codec.Registry) (inflater, error) {
	if form == Plain {
		engines = codec.NewRegistry(identity.New())
	}
	found := engines.ForCodec(form.Codec())
	if len(found) == 0 {
		return inflater{}, fmt.Errorf("read a file of form %v: this program has no engine of %v", form, form.Codec())
	}
	decoder, err := found[0].NewDecoder()
	if err != nil {
		return inflater{}, fmt.Errorf("read a file of form %v: %w", form, err)
	}
	return inflater{form: form, decoder: decoder}, nil
}

// block expands what rests of one, which may be written to behind its end.
func (f *inflater) block(dst []byte, stored *[]byte) (int, error) {
	src := *stored
	if f.form == Gzip {
		src = append(src, codec.JoinEnd...)
		*stored = src[:len(*stored)]
	}
	n, err := f.decoder.Decode(dst, src)
	if errors.Is(err, codec.ErrCorrupt) {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return n, err
}

// sum returns the checksum that an index has of plain bytes.
func (f Form) sum(plain []byte) uint64 {
	if f == Gzip {
		return uint64(crc32.ChecksumIEEE(plain))
	}
	return xxh3.Hash(plain)
}
