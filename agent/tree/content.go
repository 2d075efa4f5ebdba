// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/wire/contents"
)

// contentBuffer is how much of a file is read at once, in bytes.
const contentBuffer = 256 << 10

// contentReader reads whole files, one after the other.
type contentReader struct {
	buffer []byte
}

// readers are those of sources, which several receivers may have digested at once.
var readers = sync.Pool{New: func() any { return &contentReader{} }}

// Digest returns size and SHA-256 of a file, or a further name of one, that a walk found a moment ago. It calls alive
// before each part, and ends with its error. It returns ErrChanged when the file is not what the walk found, or changed
// while it was read.
func (s *Source) Digest(e *Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error) {
	if e.Form != 0 {
		return s.digestExpanded(e, alive)
	}
	f, err := s.open(e)
	if err != nil {
		return 0, sum, err
	}
	defer f.Close()
	var before, after unix.Stat_t
	if err := fstat(f.fd, &before); err != nil {
		return 0, sum, fmt.Errorf("look at %q: %w", printable(e.Path), err)
	}
	if before.Mode&unix.S_IFMT != unix.S_IFREG || e.Type == File && !e.same(&before) {
		return 0, sum, ErrChanged
	}
	content, r := contents.NewFile(alive), readers.Get().(*contentReader) //nolint:forcetypeassert // It has no others.
	defer readers.Put(r)
	if err := r.copy(content, before.Size, f.ReadAt); err != nil {
		return 0, sum, err
	}
	if err := fstat(f.fd, &after); err != nil {
		return 0, sum, fmt.Errorf("look at %q: %w", printable(e.Path), err)
	}
	if after.Size != before.Size || after.Mtim != before.Mtim || after.Ctim != before.Ctim {
		return 0, sum, ErrChanged
	}
	size, sum = content.Sum()
	return size, sum, nil
}

// ReadContent writes the file at a path, which must have passed CheckPath, after Finish to w and returns its size in
// bytes, or -1 if there is no file that can be read. It is not safe for concurrent use.
func (d *Destination) ReadContent(path string, w io.Writer) (size int64, err error) {
	f, err := openFile(d.finished, path)
	if err != nil {
		return 0, err
	}
	if f == nil {
		return -1, nil
	}
	defer f.Close()
	read := func(p []byte, offset int64) error {
		_, err := f.ReadAt(p, offset)
		return err
	}
	return f.size, d.content.copy(w, f.size, read)
}

// copy writes what read reads.
func (r *contentReader) copy(w io.Writer, size int64, read func(p []byte, offset int64) error) error {
	if r.buffer == nil {
		r.buffer = make([]byte, contentBuffer)
	}
	for offset := int64(0); offset < size; {
		p := r.buffer[:min(contentBuffer, size-offset)]
		if err := read(p, offset); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		offset += int64(len(p))
	}
	return nil
}

// ReadLink returns the target of the symbolic link at a path, which must have passed CheckPath, after Finish; ok is
// false if there is none.
func (d *Destination) ReadLink(path string) (target string, ok bool, err error) {
	parent, name := Split(path)
	in := d.finished
	if parent != Root {
		if in, err = d.finished.openDir(parent); err == nil {
			defer in.close()
		}
	}
	if err == nil {
		target, err = in.readlink(name)
	}
	switch err {
	case nil:
		return target, true, nil
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EINVAL:
		return "", false, nil
	default:
		return "", false, writeError("read", path, err)
	}
}
