// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
)

// files are those of one archive, wherever it is. What is not there matches fs.ErrNotExist.
type files interface {
	// list yields all files, in any order, until yield returns false.
	list(yield func(file) bool) error
	open(name string) (io.ReadCloser, error)
	// part opens a file of which parts are read.
	part(name string) (part, error)
	stat(name string) (file, error)
	// create begins a file. Each member has one at a time.
	create(member string) (draft, error)
	// remove removes a file. It is no error if there is none.
	remove(name string) error
	Close() error
}

// file is what is known of one.
type file struct {
	name     string
	size     int64
	modified time.Time
}

// part is a file of which parts are read.
type part interface {
	io.ReaderAt
	cargo.RangeOpener
	io.Closer
	size() int64
}

// draft is a file that has not got its name yet. One of commit and abandon ends it.
type draft interface {
	io.Writer
	// commit makes the file durable, whole, under its name.
	commit(name string) error
	// abandon removes it.
	abandon() error
}

// folder is an archive in a directory.
type folder struct{ root *os.Root }

func (f folder) list(yield func(file) bool) error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was deleted just now.
		}
		if err != nil {
			return err
		}
		if !yield(file{name: entry.Name(), size: info.Size(), modified: info.ModTime()}) {
			return nil
		}
	}
	return nil
}

func (f folder) open(name string) (io.ReadCloser, error) {
	opened, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (f folder) part(name string) (part, error) {
	opened, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return folderPart{opened, info.Size()}, nil
}

// folderPart is a part in a directory.
type folderPart struct {
	*os.File
	length int64
}

func (p folderPart) size() int64 { return p.length }

func (p folderPart) OpenRange(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(p.File, offset, length)), nil
}

func (f folder) stat(name string) (file, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return file{}, err
	}
	return file{name: name, size: info.Size(), modified: info.ModTime()}, nil
}

func (f folder) create(member string) (draft, error) {
	name := member + temporary
	opened, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, err
	}
	return &temporaryFile{File: opened, root: f.root, name: name}, nil
}

func (f folder) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f folder) Close() error { return f.root.Close() }

// temporaryFile is a draft in a directory.
type temporaryFile struct {
	*os.File
	root *os.Root
	name string
}

func (f *temporaryFile) commit(name string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := f.root.Rename(f.name, name); err != nil {
		return err
	}
	return syncDirectory(f.root)
}

func (f *temporaryFile) abandon() error { return errors.Join(f.Close(), f.root.Remove(f.name)) }
