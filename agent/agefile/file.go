// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agefile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

const (
	// chunk is how many plain bytes are encrypted at once, and overhead how many more they are then.
	chunk    = 64 << 10
	overhead = 16
	nonce    = 16
	// headSize is how much is read of a file before anything is known of it, and the most bytes of a header: those of
	// MaxRecipients with ML-KEM-768 have 26 KiB.
	headSize = 32 << 10
	// readBuffer is how much is decrypted at once.
	readBuffer = 4 * chunk
)

// Fetch opens a range of an encrypted file, which has at least one byte and is within the file.
type Fetch func(ctx context.Context, offset, length int64) (io.ReadCloser, error)

// File is an encrypted file whose header and last chunk were read. It holds at most 96 KiB, and is safe for concurrent
// use.
type File struct {
	size       int64 // as it rests
	plain      int64
	begin      int64 // of the first chunk
	head       []byte
	tail       []byte
	identities []age.Identity
}

// Open reads the header and the last chunk of a file of so many bytes, which takes two fetches at most. Errors match
// ErrPlain, ErrIdentity or ErrCorrupt, or are those of fetch.
func Open(ctx context.Context, size int64, fetch Fetch, identities []age.Identity) (*File, error) {
	if size < int64(len(Magic)) {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrPlain, size)
	}
	f := &File{size: size, identities: identities}
	var err error
	if f.head, err = read(ctx, fetch, 0, min(size, headSize)); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(f.head, []byte(Magic)) {
		return nil, ErrPlain
	}
	if len(identities) == 0 {
		return nil, ErrIdentity
	}
	// No more than the head, so that a header without an end is not held in memory.
	header, err := age.ExtractHeader(bytes.NewReader(f.head))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	f.begin = int64(len(header)) + nonce
	f.head = f.head[:min(f.begin, int64(len(f.head)))]
	last := f.lastChunk()
	if last < f.begin || size-last < overhead {
		return nil, fmt.Errorf("%w: it ends before its content", ErrCorrupt)
	}
	if f.tail, err = read(ctx, fetch, last, size-last); err != nil {
		return nil, err
	}
	_, f.plain, err = f.decrypt(&source{file: f})
	return f, err
}

// lastChunk is where the last chunk begins.
func (f *File) lastChunk() int64 {
	return f.begin + max(f.size-f.begin-1, 0)/(chunk+overhead)*(chunk+overhead)
}

// Size is the length of the plain file in bytes.
func (f *File) Size() int64 { return f.plain }

// Range opens a part of the plain file. The chunks that it is in are got with one fetch, or none where that is the last
// one. What is read was verified; the error of a damaged chunk matches ErrCorrupt.
func (f *File) Range(ctx context.Context, fetch Fetch, offset, length int64) (io.ReadCloser, error) {
	if offset < 0 || length < 0 || length > f.plain-offset {
		return nil, fmt.Errorf("%w: there are no %d bytes at %d", ErrCorrupt, length, offset)
	}
	s := &source{file: f}
	plain, _, err := f.decrypt(s)
	if err != nil {
		return nil, err
	}
	s.at = f.begin + offset/chunk*(chunk+overhead)
	if end := min(f.lastChunk(), f.begin+(offset+length+chunk-1)/chunk*(chunk+overhead)); s.at < end && length > 0 {
		if s.stream, err = fetch(ctx, s.at, end-s.at); err != nil {
			return nil, err
		}
	}
	r := &rangeReader{source: s}
	r.Reader = bufio.NewReaderSize(
		&section{file: f, source: s, plain: plain, at: offset, end: offset + length}, int(min(readBuffer, max(length, 16))),
	)
	return r, nil
}

// decrypt returns the plain file of a source.
func (f *File) decrypt(s *source) (io.ReaderAt, int64, error) {
	plain, size, err := age.DecryptReaderAt(s, f.size, f.identities...)
	return plain, size, f.explain(s, err)
}

// explain makes an error of the library one of ours.
func (f *File) explain(s *source, err error) error {
	var none *age.NoIdentityMatchError
	switch {
	case err == nil:
		return nil
	case s.err != nil:
		return s.err
	case errors.As(err, &none):
		return ErrIdentity
	default:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
}

func read(ctx context.Context, fetch Fetch, offset, length int64) ([]byte, error) {
	r, err := fetch(ctx, offset, length)
	if err != nil {
		return nil, err
	}
	b := make([]byte, length)
	_, err = io.ReadFull(r, b)
	return b, errors.Join(err, r.Close())
}

// source is an encrypted file of which the head, the last chunk and a stream from at on can be read.
type source struct {
	file   *File
	stream io.ReadCloser
	at     int64
	// err is that of the stream.
	err error
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, offset int64) (int, error) {
	f := s.file
	last := f.lastChunk()
	switch {
	case offset >= 0 && offset < int64(len(f.head)):
		return bytes.NewReader(f.head).ReadAt(p, offset)
	case offset >= last && offset < f.size && f.tail != nil:
		return bytes.NewReader(f.tail).ReadAt(p, offset-last)
	case s.stream == nil || offset != s.at:
		return 0, fmt.Errorf("%w: nothing was fetched at %d", ErrCorrupt, offset)
	}
	n, err := io.ReadFull(s.stream, p)
	s.at += int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

// section is a range of a plain file.
type section struct {
	file    *File
	source  *source
	plain   io.ReaderAt
	at, end int64
}

// Read implements io.Reader.
func (s *section) Read(p []byte) (int, error) {
	if s.at == s.end {
		return 0, io.EOF
	}
	n, err := s.plain.ReadAt(p[:min(int64(len(p)), s.end-s.at)], s.at)
	s.at += int64(n)
	if errors.Is(err, io.EOF) && s.source.err == nil {
		err = nil // The end of the file is that of a range.
	}
	return n, s.file.explain(s.source, err)
}

// rangeReader is a section that is buffered.
type rangeReader struct {
	*bufio.Reader
	source *source
}

// Close implements io.Closer.
func (r *rangeReader) Close() error {
	if r.source.stream == nil {
		return nil
	}
	return r.source.stream.Close()
}
