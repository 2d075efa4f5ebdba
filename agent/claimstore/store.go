// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// Who may read archives reads all files in them: the agent's user, and the group of the volume.
	fileMode      = 0o640
	directoryMode = 0o750

	below = bucket.Reserved + "/"
	// writing is the directory of what has no name yet.
	writing = below + "writing"
	// journals has a directory for the journal of each archive.
	journals = below + "archives/journal"
)

// Store is a directory of a claim. It is safe for concurrent use.
type Store struct {
	root *os.Root

	mu     sync.Mutex
	synced map[string]bool // directories whose names are safe
}

// Open opens the directory path of a mounted volume to be written, and makes it if it is not there.
func Open(volume, path string) (*Store, error) {
	if err := tree.CheckPath(path); err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"the path %q in the destination claim is not usable: %w", failure.Shorten(path, 256), err)
	}
	v, err := os.OpenRoot(volume)
	if err != nil {
		return nil, fmt.Errorf("open the destination volume: %w", err)
	}
	defer v.Close()
	if err := v.MkdirAll(path, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = unix.ENOTDIR
		}
		return nil, tree.WriteError("make", path, err)
	}
	root, err := v.OpenRoot(path)
	if err != nil {
		return nil, tree.WriteError("open", path, err)
	}
	// What lies behind a link is no archive, and would be swept as what no index names.
	for _, name := range []string{bucket.Reserved, below + "archives", writing} {
		info, err := root.Lstat(name)
		if err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = root.Close()
			return nil, tree.WriteError("open", name, err)
		}
	}
	s := &Store{root: root, synced: make(map[string]bool)}
	if err := s.sweepJournals(); err != nil {
		_ = root.Close()
		return nil, err
	}
	return s, nil
}

// sweepJournals removes the directories of journals that are empty: a writer that was killed may have made one, or have
// removed the last object of one.
func (s *Store) sweepJournals() error {
	entries, err := s.names(journals)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = s.root.Remove(journals + "/" + e.Name()) // It is not empty, mostly.
		}
	}
	return nil
}

// OpenSource opens the directory path of a mounted volume to be read. Without archives in it there is an error with a
// reason.
func OpenSource(ctx context.Context, volume, path string) (*Store, error) {
	s, err := OpenRead(volume, path)
	if err != nil {
		return nil, err
	}
	if _, err := s.Head(ctx, bucket.IndexName); errors.Is(err, objectstore.ErrNotFound) {
		_ = s.root.Close()
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"the directory %q of the source claim has no archives, for there is no %s in it: name the path into which a "+
				"Transfer with spec.destination.form: Archive wrote, wait for its first run, or remove spec.source.form",
			failure.Shorten(path, 256), bucket.IndexName)
	}
	return s, nil
}

// OpenRead opens the directory path of a mounted volume to be read, whatever is in it.
func OpenRead(volume, path string) (*Store, error) {
	there, err := tree.OpenSource(volume, path) // It explains why it cannot be opened.
	if err != nil {
		return nil, err
	}
	defer there.Close()
	v, err := os.OpenRoot(volume)
	if err != nil {
		return nil, fmt.Errorf("open the source volume: %w", err)
	}
	defer v.Close()
	root, err := v.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the source: %w", err)
	}
	return &Store{root: root, synced: make(map[string]bool)}, nil
}

// Close closes the directory.
func (s *Store) Close() { _ = s.root.Close() }

// Check reports whether an object may have a name: objectstore.ErrName.
func (s *Store) Check(name string) error {
	if err := objectstore.CheckName("", name); err != nil {
		return err
	}
	if !strings.HasPrefix(name, below) || name == writing || strings.HasPrefix(name, writing+"/") {
		return fmt.Errorf("%w: %q is not below %s", objectstore.ErrName, failure.Shorten(name, 256), bucket.Reserved)
	}
	return nil
}

// open opens an object to be read: objectstore.ErrNotFound if there is none.
func (s *Store) open(name string) (*os.File, os.FileInfo, error) {
	if err := s.Check(name); err != nil {
		return nil, nil, err
	}
	return s.regular(name, os.O_RDONLY)
}

// regular opens a file that is there.
func (s *Store) regular(name string, flags int) (*os.File, os.FileInfo, error) {
	// Nobody at the other end of a FIFO is waited for.
	f, err := s.root.OpenFile(name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		// A link out of the directory is no archive, either. In the place of another object it is a failure: without the
		// index a writer would begin again.
		info, looked := s.root.Lstat(name)
		link := looked == nil && !info.Mode().IsRegular() && strings.HasPrefix(name, below+"archives/")
		if none(err) || link {
			return nil, nil, fmt.Errorf("open %q: %w", name, objectstore.ErrNotFound)
		}
		return nil, nil, fmt.Errorf("open %q: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("look at %q: %w", name, err), f.Close())
	}
	if !info.Mode().IsRegular() {
		_ = f.Close() // It was not used.
		return nil, nil, fmt.Errorf("open %q, which is no file: %w", name, objectstore.ErrNotFound)
	}
	return f, info, nil
}

// none reports whether an error says that there is no file of a name.
func none(err error) bool {
	for _, of := range []error{fs.ErrNotExist, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// object is what is known of a file.
func object(name string, info os.FileInfo) objectstore.Object {
	o := objectstore.Object{Name: name, Size: info.Size(), Modified: info.ModTime()}
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	o.ETag = fmt.Sprintf("%x-%x-%x", inode, o.Size, o.Modified.UnixNano())
	return o
}

// Head returns what is known of an object: objectstore.ErrNotFound if there is none. Its ETag tells versions apart and
// is no digest. There are no metadata.
func (s *Store) Head(_ context.Context, name string) (objectstore.Object, error) {
	f, info, err := s.open(name)
	if err != nil {
		return objectstore.Object{}, err
	}
	return object(name, info), f.Close()
}

// content is a part of an object that is read.
type content struct {
	*io.SectionReader
	file *os.File
	etag string
}

func (c content) Close() error                { return c.file.Close() }
func (c content) ETag() string                { return c.etag }
func (c content) Metadata() map[string]string { return nil }

// Get returns length bytes of an object from offset on. With an ETag the object must have it: objectstore.ErrChanged
// otherwise, and when it is shorter.
func (s *Store) Get(_ context.Context, name, etag string, offset, length int64) (objectstore.Content, error) {
	f, info, err := s.open(name)
	if err != nil {
		return nil, err
	}
	o := object(name, info)
	if etag != "" && o.ETag != etag || offset < 0 || length < 1 || length > o.Size || offset > o.Size-length {
		_ = f.Close() // It was not read.
		return nil, fmt.Errorf("read %d bytes at %d of %q, which has %d: %w", length, offset, name, o.Size,
			objectstore.ErrChanged)
	}
	return content{io.NewSectionReader(f, offset, length), f, o.ETag}, nil
}

// Delete removes an object, and its directory if that is one of a journal and is empty then. It is no error if there is
// none.
func (s *Store) Delete(_ context.Context, name string) error {
	if err := s.Check(name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !none(err) {
		return tree.WriteError("remove", name, err)
	}
	if parent := path.Dir(name); strings.Count(parent, "/") > 2 {
		_ = s.root.Remove(parent) // It is not empty, mostly.
	}
	return nil
}

// Directory returns nothing: all objects are below .lighterage, where no files of a tree are.
func (s *Store) Directory(context.Context, string) ([]objectstore.Child, error) { return nil, nil }

// List yields the objects whose names begin with a text that ends with a slash, in the order of bytes. More than
// objectstore.DefaultMaxNames are a failure.
func (s *Store) List(ctx context.Context, begin string) iter.Seq2[objectstore.Object, error] {
	return func(yield func(objectstore.Object, error) bool) {
		var found []objectstore.Object
		looked := 0
		if err := s.list(ctx, strings.TrimSuffix(begin, "/"), &found, &looked); err != nil {
			yield(objectstore.Object{}, err)
			return
		}
		slices.SortFunc(found, func(a, b objectstore.Object) int { return strings.Compare(a.Name, b.Name) })
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// list adds what is in a directory. looked counts whatever is there.
func (s *Store) list(ctx context.Context, directory string, found *[]objectstore.Object, looked *int) error {
	entries, err := s.names(directory)
	if err != nil {
		return err
	}
	if *looked += len(entries); *looked > objectstore.DefaultMaxNames {
		return tooMany(directory)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		name := directory + "/" + e.Name()
		if s.Check(name) != nil {
			continue
		}
		if e.IsDir() {
			if err := s.list(ctx, name, found, looked); err != nil {
				return err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at %q: %w", name, err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		*found = append(*found, object(name, info))
	}
	return nil
}

// names returns what is in a directory; nothing if there is none.
func (s *Store) names(directory string) ([]os.DirEntry, error) {
	d, err := s.root.OpenFile(directory, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		if none(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("open the directory %q: %w", directory, err)
	}
	defer d.Close()
	entries, err := d.ReadDir(objectstore.DefaultMaxNames + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the directory %q: %w", directory, err)
	}
	if len(entries) > objectstore.DefaultMaxNames {
		return nil, tooMany(directory)
	}
	return entries, nil
}

func tooMany(directory string) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
		"there are more than %d files in %q of the claim: remove those that are none of Lighterage's",
		objectstore.DefaultMaxNames, directory)
}
