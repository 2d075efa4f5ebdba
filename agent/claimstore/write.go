// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
)

// writeAtOnce is how much is written at once, in bytes.
const writeAtOnce = 1 << 20

// Put writes an object of size bytes and returns its ETag. With IfAbsent it writes only if there is none:
// objectstore.ErrExists otherwise. Metadata are not kept.
func (s *Store) Put(
	ctx context.Context, name string, body io.ReaderAt, size int64, o objectstore.PutOptions,
) (string, error) {
	if err := s.Check(name); err != nil {
		return "", err
	}
	temporary := writing + "/" + rand.Text()
	f, err := s.create(temporary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	etag, err := s.put(ctx, f, name, body, size, o.IfAbsent)
	if err != nil {
		return "", errors.Join(err, s.forget(temporary))
	}
	return etag, nil
}

// put fills a file and gives it its name.
func (s *Store) put(
	ctx context.Context, f *os.File, name string, body io.ReaderAt, size int64, ifAbsent bool,
) (string, error) {
	if _, err := fill(ctx, f, 0, body, size); err != nil {
		return "", err
	}
	return s.name(f, name, ifAbsent)
}

// create makes a file for what has no name yet, with the directories that it is in.
func (s *Store) create(name string) (*os.File, error) {
	if err := s.root.MkdirAll(path.Dir(name), directoryMode); err != nil {
		return nil, tree.WriteError("make", path.Dir(name), err)
	}
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, tree.WriteError("make", name, err)
	}
	return f, nil
}

// fill writes size bytes from an offset on, and returns their checksum. What is in memory is written from there.
func fill(ctx context.Context, f *os.File, offset int64, body io.ReaderAt, size int64) (sum uint64, err error) {
	all, inMemory := body.(objectstore.Bytes)
	inMemory = inMemory && int64(len(all)) >= size
	var buffer []byte
	if !inMemory {
		buffer = make([]byte, min(size, writeAtOnce))
	}
	hash := xxh3.New()
	for done := int64(0); done < size; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n := min(size-done, writeAtOnce)
		p := buffer[:min(n, int64(len(buffer)))]
		if inMemory {
			p = all[done : done+n]
		} else if read, err := body.ReadAt(p, done); read < len(p) {
			return 0, fmt.Errorf("read what is to be written: %w", err)
		}
		if _, err := f.WriteAt(p, offset+done); err != nil {
			return 0, tree.WriteError("write", path.Base(f.Name()), err)
		}
		_, _ = hash.Write(p) // never fails
		done += n
	}
	return hash.Sum64(), nil
}

// name syncs a file that is complete and gives it its name. It returns the ETag.
func (s *Store) name(f *os.File, name string, ifAbsent bool) (string, error) {
	if err := f.Sync(); err != nil {
		return "", tree.WriteError("sync", name, err)
	}
	temporary := writing + "/" + path.Base(f.Name())
	err := s.rename(temporary, name, ifAbsent)
	if errors.Is(err, fs.ErrNotExist) {
		// Its directory is not there, or not any more.
		if err := s.root.MkdirAll(path.Dir(name), directoryMode); err != nil {
			return "", tree.WriteError("make", path.Dir(name), err)
		}
		err = s.rename(temporary, name, ifAbsent)
	}
	if errors.Is(err, fs.ErrExist) && ifAbsent {
		return "", fmt.Errorf("put %q: %w", name, objectstore.ErrExists)
	}
	if err != nil {
		return "", tree.WriteError("give its name to", name, err)
	}
	if err := s.syncAbove(name); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("look at %q: %w", name, err)
	}
	return object(name, info).ETag, nil
}

// rename gives a file its name; ifAbsent: unless there is one.
func (s *Store) rename(from, to string, ifAbsent bool) error {
	if !ifAbsent {
		return s.root.Rename(from, to)
	}
	err := s.root.Link(from, to)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		// The file system has no links. Nobody else writes here but by mistake.
		if _, err := s.root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fs.ErrExist)
		}
		return s.root.Rename(from, to)
	case err != nil:
		return err
	}
	return s.root.Remove(from)
}

// syncAbove makes the name of a file safe, and those of the directories that it is in.
func (s *Store) syncAbove(name string) error {
	for directory := path.Dir(name); ; directory = path.Dir(directory) {
		d, err := s.root.OpenFile(directory, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return tree.WriteError("open", directory, err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return tree.WriteError("sync", directory, err)
		}
		s.mu.Lock()
		done := directory == "." || s.synced[directory]
		s.synced[directory] = true
		s.mu.Unlock()
		if done {
			return nil
		}
	}
}

// forget removes a file that gets no name.
func (s *Store) forget(name string) error {
	if err := s.root.Remove(name); err != nil && !none(err) {
		return tree.WriteError("remove", name, err)
	}
	return nil
}
