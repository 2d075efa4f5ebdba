// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// TemporaryPrefix is what the names of files begin with that have not appeared, where the file system has no files
// without a name, and of those that are to replace others. What a killed process left may be removed.
const TemporaryPrefix = ".lighterage-cargo-"

// local is a path.
type local struct{ path string }

func (l local) index() place { return local{indexPath(l.path)} }

func (l local) open(context.Context) (object, error) {
	// A pipe would wait for a writer.
	info, err := os.Stat(l.path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file", ErrName)
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &localFile{File: file, length: info.Size()}, nil
}

// localFile is an open one.
type localFile struct {
	*os.File
	length int64
}

func (f *localFile) size() int64 { return f.length }

// OpenRange implements cargo.RangeOpener.
func (f *localFile) OpenRange(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	return &localRange{f.File, offset, length}, nil
}

// localRange is a part of a file.
type localRange struct {
	file         *os.File
	offset, left int64
}

// Read implements io.Reader.
func (r *localRange) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), r.left)], r.offset)
	r.offset, r.left = r.offset+int64(n), r.left-int64(n)
	return n, err
}

// WriteTo implements io.WriterTo: between files the system copies by itself. Only one part of a file is copied at once.
func (r *localRange) WriteTo(w io.Writer) (int64, error) {
	if _, err := r.file.Seek(r.offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.Copy(w, io.LimitReader(r.file, r.left))
	r.offset, r.left = r.offset+n, r.left-n
	return n, err
}

// Close does nothing: the file stays open.
func (*localRange) Close() error { return nil }

func (l local) create(_ context.Context, replace bool) (sink, error) {
	info, err := os.Lstat(l.path)
	switch {
	case err == nil && !replace:
		return nil, ErrExists
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: what is there is no regular file", ErrName)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s := &localSink{path: l.path, replace: replace}
	if s.File, err = createUnnamed(filepath.Dir(l.path)); err != nil {
		s.temporary = temporaryBeside(l.path)
		// Not os.CreateTemp, whose files are readable by their owner alone.
		if s.File, err = os.OpenFile(s.temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
			return nil, err
		}
	}
	if info == nil {
		return s, nil
	}
	if err := s.Chmod(info.Mode().Perm()); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

func temporaryBeside(path string) string {
	return filepath.Join(filepath.Dir(path), TemporaryPrefix+rand.Text())
}

// localSink is a file in the directory of the one to be. Its ReadFrom is that of the file.
type localSink struct {
	*os.File
	path string
	// temporary is the file's name until it gets its own; empty: it has none, and is gone with this process.
	temporary string
	replace   bool
	published bool
}

func (s *localSink) prepare() error { return s.Sync() }

func (s *localSink) publish() error {
	if err := s.appear(); err != nil {
		return err
	}
	s.published = true
	return errors.Join(s.File.Close(), syncDirectory(filepath.Dir(s.path)))
}

func (s *localSink) appear() error {
	if s.temporary == "" {
		err := nameUnnamed(s.File, s.path)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrExist) && !s.replace:
			return ErrExists
		case !errors.Is(err, fs.ErrExist):
			return err
		}
		// Only a name replaces another.
		temporary := temporaryBeside(s.path)
		if err := nameUnnamed(s.File, temporary); err != nil {
			return err
		}
		s.temporary = temporary
	}
	if s.replace {
		return os.Rename(s.temporary, s.path)
	}
	// A link replaces nothing, whoever comes at the same time.
	err := os.Link(s.temporary, s.path)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err == nil {
		return os.Remove(s.temporary)
	}
	// The file system has no links.
	if _, err := os.Lstat(s.path); err == nil {
		return ErrExists
	}
	return os.Rename(s.temporary, s.path)
}

func (s *localSink) abort() {
	if s.published {
		return
	}
	_ = s.File.Close() // of what nobody will read
	if s.temporary != "" {
		_ = os.Remove(s.temporary)
	}
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (l local) remove() error { return os.Remove(l.path) }

func (l local) list(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := os.Stat(l.path)
		if err == nil && !info.IsDir() {
			err = ErrNoIndex
		}
		if err != nil {
			yield("", err)
			return
		}
		err = filepath.WalkDir(l.path, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case entry.Type().IsRegular() && !yield(path, nil):
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}
