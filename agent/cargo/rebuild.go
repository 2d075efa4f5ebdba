// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
	"github.com/lighterage/lighterage/agent/frame"
)

// Rebuild reads a file from its beginning to its end and makes its index again. It expands every block, so the index
// that it returns is true of the file; of form Gzip the file's own CRC-32 is compared. It holds one block at a time,
// and blocks are bounded. A file that was not written by a Writer, or was damaged since, is ErrForeign.
func Rebuild(ctx context.Context, file io.Reader, engines *codec.Registry) (*Index, error) {
	return RebuildRecords(ctx, file, engines, Records{})
}

// RebuildRecords is Rebuild with the numbers of records, at whose borders blocks need not end. A file that does not
// consist of them is a *RecordError.
func RebuildRecords(
	ctx context.Context, file io.Reader, engines *codec.Registry, records Records,
) (*Index, error) {
	if !records.Valid() {
		return nil, fmt.Errorf("make an index again: there are no records %v", records)
	}
	s := &scanner{window: window{file: file}, split: splitter{records: records}}
	head, err := s.window.peek(len(gzipHeader))
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(gzipHeader)):
		s.form = Gzip
		s.window.skip(len(gzipHeader))
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		s.form = Zstd
	default:
		return nil, fmt.Errorf("%w: it begins with %x", ErrForeign, head[:min(len(head), len(gzipHeader))])
	}
	if s.inflate, err = newInflater(s.form, engines); err != nil {
		return nil, err
	}
	index, err := s.run(ctx)
	return index, errors.Join(err, s.inflate.decoder.Close())
}

// scanner finds the blocks of a file.
type scanner struct {
	window  window
	form    Form
	inflate inflater
	blocks  []Block
	split   splitter
	marks   []Mark
	plain   []byte
	tape    tape
	deflate io.ReadCloser // of the tape
}

func (s *scanner) run(ctx context.Context) (*Index, error) {
	s.plain = make([]byte, frame.MaxPlain+1) // one byte more shows what is too long
	s.deflate = flate.NewReader(&s.tape)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("look for block %d: %w", len(s.blocks), err)
		}
		rest, err := s.window.peek(s.form.largest() + gzipEnd)
		if err != nil {
			return nil, err
		}
		if s.ends(rest) {
			break
		}
		if len(s.blocks) == MaxBlocks {
			return nil, ErrTooLong
		}
		next := s.nextGzip
		if s.form == Zstd {
			next = s.nextZstd
		}
		length, n, err := next(rest)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", len(s.blocks), err)
		}
		b := Block{
			plain: uint32(n), stored: uint32(length), sum: s.inflate.form.sum(s.plain[:n]), storedSum: xxh3.Hash(rest[:length]),
		}
		if err := b.check(s.form); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrForeign, len(s.blocks), err)
		}
		s.blocks = append(s.blocks, b)
		if s.split.records.Layout != NoRecords {
			m, err := s.split.mark(s.plain[:n])
			if err != nil {
				return nil, err
			}
			s.marks = append(s.marks, m)
		}
		s.window.skip(length)
	}
	index := newIndex(s.form, s.blocks)
	rest, err := s.window.peek(gzipEnd + 1)
	if err != nil {
		return nil, err
	}
	rest = rest[:min(len(rest), gzipEnd+1)] // enough to tell
	if end := index.end(); !bytes.Equal(rest, end) {
		return nil, fmt.Errorf("%w: behind the last block there is %x instead of %x", ErrForeign, rest, end)
	}
	if err := s.split.finish(); err != nil {
		return nil, err
	}
	return index.withRecords(s.split.records, s.marks)
}

// ends reports whether no block comes next.
func (s *scanner) ends(rest []byte) bool {
	if s.form == Zstd {
		return len(rest) == 0 || len(s.blocks) == 0 && string(rest) == zstdEmpty
	}
	// DEFLATE's mark of the last block: none that rests has it.
	return len(rest) == 0 || rest[0]&1 != 0
}

// nextZstd expands the frame that comes next and returns its length and that of its plain bytes.
func (s *scanner) nextZstd(rest []byte) (length, plain int, err error) {
	size, length, err := zstdframe.Next(rest, frame.MaxPlain)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	stored := rest[:length]
	n, err := s.inflate.block(s.plain[:size], &stored)
	if err != nil {
		return 0, 0, foreign(err)
	}
	return length, n, nil
}

// nextGzip is nextZstd for DEFLATE, where lengths are nowhere: a block is what expands alone, up to the first flush.
func (s *scanner) nextGzip(rest []byte) (length, plain int, err error) {
	s.tape = tape{rest: rest}
	if err := s.deflate.(flate.Resetter).Reset(&s.tape, nil); err != nil {
		return 0, 0, fmt.Errorf("reset the decoder: %w", err)
	}
	// A tape that ended too early, or did not, says more than the error.
	n, _ := io.ReadFull(s.deflate, s.plain)
	if !s.tape.flushed {
		return 0, 0, fmt.Errorf("%w: %d bytes, which expand to %d, do not end in a flush", ErrForeign, s.tape.at, n)
	}
	return s.tape.at, n, nil
}

// tape ends behind the first flush. It tells one by how package flate reads: what begins a stored block, which is two
// lengths, is what it reads 4 bytes of after single ones, and what a stored block holds comes after that. If it read
// otherwise, no flush would be found.
type tape struct {
	rest    []byte
	at      int
	within  bool // a stored block was begun, and nothing was read since
	flushed bool
}

// ReadByte implements io.ByteReader.
func (t *tape) ReadByte() (byte, error) {
	if t.flushed || t.at == len(t.rest) {
		return 0, io.EOF
	}
	t.within = false
	t.at++
	return t.rest[t.at-1], nil
}

// Read implements io.Reader.
func (t *tape) Read(p []byte) (int, error) {
	if t.flushed || t.at == len(t.rest) {
		return 0, io.EOF
	}
	n := copy(p, t.rest[t.at:])
	t.at += n
	t.flushed = !t.within && string(p[:n]) == flush[1:]
	t.within = true
	return n, nil
}

// foreign makes what cannot be expanded ErrForeign.
func foreign(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// window is the part of a file that is looked at.
type window struct {
	file io.Reader
	buf  []byte
	at   int
	end  bool
}

// peek returns what comes next, at least n bytes unless the file ends before.
func (w *window) peek(n int) ([]byte, error) {
	if len(w.buf)-w.at < n && !w.end {
		w.buf = w.buf[:copy(w.buf, w.buf[w.at:])]
		w.at = 0
		w.buf = slices.Grow(w.buf, max(n, 1<<16))
		got, err := io.ReadFull(w.file, w.buf[len(w.buf):cap(w.buf)])
		w.buf = w.buf[:len(w.buf)+got]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			w.end = true
		} else if err != nil {
			return nil, fmt.Errorf("read a file: %w", err)
		}
	}
	return w.buf[w.at:], nil
}

// skip leaves out bytes that were returned.
func (w *window) skip(n int) { w.at += n }
