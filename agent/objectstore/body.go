// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"io"
	"sync"
)

// body is what one request sends. An HTTP client may go on reading the body of a request that has ended already, so
// the caller ends it before another request, or another use of what is read, begins.
type body struct {
	mu      sync.Mutex
	section *io.SectionReader
	ended   bool
}

func newBody(r io.ReaderAt, size int64) *body { return &body{section: io.NewSectionReader(r, 0, size)} }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	return b.section.Read(p)
}

// Seek implements io.Seeker: the client of S3 goes back to the beginning when it is redirected.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	return b.section.Seek(offset, whence)
}

// end waits for a read that is under way, and fails all later ones.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// Bytes is an io.ReaderAt of what is in memory, whose ReadAt need not be called for that.
type Bytes []byte

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
