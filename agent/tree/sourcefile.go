// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
)

// SourceFile is a file that is read. Its methods are safe for concurrent use, but for Close.
type SourceFile struct {
	entry *Entry
	fd    int
	// device: it has no times that tell of changes.
	device bool
}

// Open opens a file that Walk found. It returns ErrChanged when the file is not what Walk found any more.
func (s *Source) Open(e *Entry) (*SourceFile, error) {
	f, err := s.open(e)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (s *Source) open(e *Entry) (*SourceFile, error) {
	fd, err := dir(s.root.Fd()).open(e.atSource(), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		return &SourceFile{entry: e, fd: fd}, nil
	case err == unix.ENOENT, err == unix.ENOTDIR, err == unix.ELOOP, err == unix.ENXIO:
		return nil, ErrChanged // ENXIO: a socket is there now.
	case errors.Is(err, fs.ErrPermission):
		return nil, unreadable(e.Path, err)
	default:
		return nil, fmt.Errorf("open %q: %w", printable(e.Path), err)
	}
}

// Again returns what a file that Walk found is now, to be read once more. It returns fs.ErrNotExist when there is
// nothing any more, and ErrChanged when that takes another walk: something else is there, or the file had further names
// and is not the same any more.
func (s *Source) Again(e *Entry) (*Entry, error) {
	fd, err := dir(s.root.Fd()).open(e.atSource(), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
	case err == unix.ENOENT && !e.shared:
		return nil, fs.ErrNotExist
	case err == unix.ENOENT, err == unix.ENOTDIR, err == unix.ELOOP, err == unix.ENXIO:
		return nil, ErrChanged
	case errors.Is(err, fs.ErrPermission):
		return nil, unreadable(e.Path, err)
	default:
		return nil, fmt.Errorf("open %q: %w", printable(e.Path), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at %q: %w", printable(e.Path), err)
	}
	now := &Entry{Path: e.Path, Type: File, Form: e.Form}
	now.describe(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || e.shared && (now.device != e.device || now.inode != e.inode) {
		return nil, ErrChanged
	}
	if e.Form != 0 && now.describeResting(dir(s.root.Fd()), e.Form.IndexPath(e.Path)) != nil {
		return nil, ErrChanged
	}
	w := walker{omissions: s.omissions}
	if now.Xattrs, err = w.readXattrs(node{fd: fd}, now); err != nil {
		return nil, err
	}
	return now, nil
}

// ReadAt fills p with the bytes of a file that Walk found, from offset on. It returns ErrChanged when the file is not,
// or after the reading is not any more, what Walk found.
func (s *Source) ReadAt(e *Entry, p []byte, offset int64) error {
	f, err := s.open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	if e.Form != 0 {
		return s.expanded(restingFile{f}, func(r *cargo.Reader) error {
			_, err := r.ReadAt(p, offset)
			return err
		})
	}
	if err := f.ReadAt(p, offset); err != nil {
		return err
	}
	return f.Check()
}

// ReadAt fills p with the bytes from offset on. It returns ErrChanged if there are not as many. What was read is valid
// only if Check finds no change afterwards.
func (f *SourceFile) ReadAt(p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := unix.Pread(f.fd, p, offset)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EISDIR || err == unix.ESPIPE || err == nil && n == 0 {
			return ErrChanged
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", printable(f.entry.Path), err)
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// Check returns ErrChanged when the file is not what Walk found: another one, or its size, its time of modification or
// its time of change differs. A file that was written to through a mapping may show it only later.
func (f *SourceFile) Check() error {
	if f.device {
		return nil
	}
	var st unix.Stat_t
	if err := fstat(f.fd, &st); err != nil {
		return fmt.Errorf("look at %q: %w", printable(f.entry.Path), err)
	}
	if !f.entry.same(&st) {
		return ErrChanged
	}
	return nil
}

// Data returns the next range at or after offset that is no hole. It is empty, at the file's size, if there is none.
// File systems may report holes as data.
func (f *SourceFile) Data(offset int64) (start, end int64, err error) {
	start, end, err = dataRange(f.fd, offset, f.entry.Size)
	if err != nil {
		err = fmt.Errorf("look for holes in %q: %w", printable(f.entry.Path), err)
	}
	return start, end, err
}

// dataRange finds the next data of a file within its first size bytes.
func dataRange(fd int, offset, size int64) (start, end int64, err error) {
	if offset >= size {
		return size, size, nil
	}
	start, err = unix.Seek(fd, offset, unix.SEEK_DATA)
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP: // The file system does not know of holes.
		return offset, size, nil
	default:
		return 0, 0, err
	}
	if start >= size {
		return size, size, nil
	}
	end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
	switch {
	case err == unix.ENXIO, err == nil && end <= start: // Truncated meanwhile.
		return start, size, nil
	case err != nil:
		return 0, 0, err
	}
	return start, min(end, size), nil
}

// Close closes the file.
func (f *SourceFile) Close() error { return unix.Close(f.fd) }
