// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxSourceIndex is the length in bytes of the longest index that a source reads: of 680 GiB of blocks of 1 MiB, each
	// of which has 32 bytes with the numbers of records, else 24.
	maxSourceIndex = 680<<10*32 + 64
	// maxIndexes and maxIndexBytes, as they are in memory, bound the indexes that stay there. The newest always does.
	maxIndexes    = 64
	maxIndexBytes = 2 * maxSourceIndex
)

// SetForm says that there may be files that rest in a form: a.csv.gz beside its index .a.csv.gz.lgci. Walks find the
// plain file, a.csv, instead of both. A name that is taken by something else makes them two files like others.
// engines expand what Carry does not return. It must be called before Walk.
func (s *Source) SetForm(form cargo.Form, engines *codec.Registry) { s.form, s.engines = form, engines }

// atSource is the path of what rests of a file.
func (e *Entry) atSource() string {
	if e.Form == 0 {
		return e.Path
	}
	return e.Form.Name(e.Path)
}

// sourceNames returns the names in a directory in the order of those of plain files, without those of indexes.
func (w *walker) sourceNames(parent string, n *names) []resting {
	all := make([]resting, 0, n.len())
	for i := range n.len() {
		r := resting{name: n.name(i)}
		plain, ok := w.form.PlainName(r.name)
		r.file = ok && plain != "." && plain != ".." && (parent != Root || plain != StagingName) && !n.has(plain) &&
			n.has(w.form.Name(plain)) && n.has(w.form.IndexName(plain))
		switch {
		case !r.file:
			r.plain = r.name
		case strings.HasSuffix(r.name, cargo.IndexSuffix):
			continue
		default:
			r.plain = plain
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b resting) int { return cmp.Compare(a.plain, b.plain) })
	return all
}

// has reports whether a name is among them.
func (n *names) has(name string) bool {
	_, found := sort.Find(n.len(), func(i int) int { return strings.Compare(name, string(n.bytes(i))) })
	return found
}

// restingPauses are how long to wait before another look at a file that does not belong to its index. Who writes here
// gives both their names one after the other, the index first.
var restingPauses = [...]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond,
	320 * time.Millisecond}

// settle is describeResting for an entry that was described, which looks again before it takes the index for wrong. It
// reports whether there is nothing to emit.
func (w *walker) settle(e *Entry, d dir, parent string, r resting, st *unix.Stat_t) (done bool, err error) {
	for _, pause := range restingPauses {
		if err := e.describeResting(d, w.form.IndexName(r.plain)); err == nil {
			return false, nil
		}
		w.pause(pause)
		device, inode := st.Dev, st.Ino
		switch err := d.lstat(r.name, st); {
		case err == unix.ENOENT:
			return true, nil // Removed after its name was read, as if a little earlier.
		case err != nil:
			return false, fmt.Errorf("look at %q: %w", printable(e.atSource()), err)
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			return false, noFile(e)
		case st.Dev != device || st.Ino != inode:
			if named, err := w.named(e, w.restingLinks, parent, r, st); named || err != nil {
				return named, err
			}
		}
		e.describe(st)
	}
	return false, e.describeResting(d, w.form.IndexName(r.plain))
}

// describeResting makes the entry of what rests of a file, with its form, that of the plain file, whose length the
// index tells. in has the index under a name.
func (e *Entry) describeResting(in dir, index string) error {
	f, err := openFile(in, index)
	if err != nil {
		return err
	}
	if f == nil {
		return badIndex(e, errors.New("it cannot be opened"))
	}
	defer f.Close()
	if f.Size() > maxSourceIndex {
		return badIndex(e, fmt.Errorf("it has %d bytes, and at most %d are read", f.Size(), maxSourceIndex))
	}
	plain, stored, _, err := cargo.Sizes(e.Form, f, f.Size())
	if err != nil {
		return badIndex(e, err)
	}
	if stored != e.Size {
		return badIndex(e, fmt.Errorf("it is of a file of %d bytes, and this one has %d", stored, e.Size))
	}
	e.Size, e.Place, e.Sparse = plain, &Place{Stored: e.Size}, false
	return nil
}

func noFile(e *Entry) error { return badIndex(e, errors.New("it is beside what is no file")) }

func badIndex(e *Entry, err error) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
		"%q cannot be sent as it rests, because of its index %q (%w): write the file again; or, if another program wrote it, "+
			"remove the index; or make a Transfer without spec.source.form",
		printable(failure.Shorten(e.atSource(), failure.MaxMessage/4)),
		printable(failure.Shorten(e.Form.IndexPath(e.Path), failure.MaxMessage/4)), err)
}

// restingFile is a file of a source as cargo reads it.
type restingFile struct{ *SourceFile }

// ReadAt implements io.ReaderAt.
func (f restingFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.SourceFile.ReadAt(p, offset); err != nil {
		return 0, err
	}
	return len(p), nil
}

// verdict is an error of reading the file by its index: ErrChanged if that is because it has changed, or does while it
// is looked at again, for its index may have been replaced before it.
func (s *Source) verdict(f restingFile, err error) error {
	if changed := f.Check(); changed != nil {
		return changed
	}
	if errors.Is(err, cargo.ErrCorrupt) {
		for _, pause := range restingPauses {
			s.pause(pause)
			if changed := f.Check(); changed != nil {
				return changed
			}
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
			"%q is damaged, or its index is (%w): restore the file and its index, or add it to spec.exclude",
			printable(failure.Shorten(f.entry.atSource(), failure.MaxMessage/2)), err)
	}
	return err
}

// Carry returns the block of a range of a file, as it rests and travels, with its checksums checked; see
// cargo.Index.Carry. ok is false if ReadAt is to be used. It returns ErrChanged as ReadAt does.
func (s *Source) Carry(e *Entry, offset int64, length int, buf []byte) (
	h frame.Header, payload []byte, ok bool, err error,
) {
	opened, err := s.open(e)
	if err != nil {
		return h, nil, false, err
	}
	defer opened.Close()
	f := restingFile{opened}
	index, err := s.index(f)
	if err == nil {
		h, payload, ok, err = index.Carry(f, offset, length, buf)
	}
	return h, payload, ok, s.verdict(f, err)
}

// Index returns the index of a file that rests in a form, which was checked against its ends. Errors are those of
// Carry.
func (s *Source) Index(e *Entry) (*cargo.Index, error) {
	opened, err := s.open(e)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := restingFile{opened}
	index, err := s.index(f)
	return index, s.verdict(f, err)
}

// Rest returns what rests of a block of a file, by the index that Index returned; see cargo.Index.Rest. Errors are
// those of Carry.
func (s *Source) Rest(e *Entry, index *cargo.Index, block int, buf []byte) ([]byte, error) {
	opened, err := s.open(e)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := restingFile{opened}
	rest, err := index.Rest(f, block, buf)
	return rest, s.verdict(f, err)
}

// expanded calls read with what reads the plain bytes of a file that rests in a form.
func (s *Source) expanded(f restingFile, read func(*cargo.Reader) error) error {
	index, err := s.index(f)
	if err != nil {
		return s.verdict(f, err)
	}
	r, err := cargo.NewReader(f, f.entry.Place.Stored, index, s.engines)
	if err != nil {
		return s.verdict(f, err)
	}
	defer r.Close()
	return s.verdict(f, read(r))
}

// digestExpanded is Digest for a file that rests in a form.
func (s *Source) digestExpanded(e *Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error) {
	if e.Type == HardLink {
		if e, err = s.Again(&Entry{Path: e.Path, Type: File, Form: e.Form}); err != nil {
			return 0, sum, ErrChanged
		}
	}
	opened, err := s.open(e)
	if err != nil {
		return 0, sum, err
	}
	defer opened.Close()
	content, r := contents.NewFile(alive), readers.Get().(*contentReader) //nolint:forcetypeassert // It has no others.
	defer readers.Put(r)
	err = s.expanded(restingFile{opened}, func(plain *cargo.Reader) error {
		return r.copy(content, e.Size, func(p []byte, offset int64) error {
			_, err := plain.ReadAt(p, offset)
			return err
		})
	})
	if err != nil {
		return 0, sum, err
	}
	size, sum = content.Sum()
	return size, sum, nil
}

// index returns the index of a file, which was checked against its ends.
func (s *Source) index(f restingFile) (*cargo.Index, error) {
	key := indexKey{inode{f.entry.device, f.entry.inode}, f.entry.Changed}
	// One at a time, so that what is read takes memory once, and the same one is not read by all workers.
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	if kept, there := s.indexes.all[key]; there {
		return kept.index, nil
	}
	of, err := openFile(dir(s.root.Fd()), f.entry.Form.IndexPath(f.entry.Path))
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, ErrChanged
	}
	defer of.Close()
	if of.Size() > maxSourceIndex {
		return nil, ErrChanged
	}
	b := make([]byte, of.Size())
	if _, err := of.ReadAt(b, 0); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, ErrChanged
		}
		return nil, err
	}
	i, err := cargo.ParseIndex(b)
	if err != nil {
		return nil, err
	}
	if i.Form() != f.entry.Form || i.Size() != f.entry.Size || i.StoredSize() != f.entry.Place.Stored {
		return nil, ErrChanged
	}
	if err := i.CheckEnds(f); err != nil {
		return nil, err
	}
	s.indexes.add(key, i, 2*int64(len(b)))
	return i, nil
}

// indexKey is a version of a file.
type indexKey struct {
	inode
	changed int64
}

// indexes are those that were read last. bytes is what they take in memory, at most.
type indexes struct {
	mu    sync.Mutex // held while one is read
	all   map[indexKey]keptIndex
	order []indexKey // the oldest first
	bytes int64
}

type keptIndex struct {
	index *cargo.Index
	bytes int64
}

// add keeps one that is not there. The mutex is held.
func (x *indexes) add(key indexKey, i *cargo.Index, bytes int64) {
	if x.all == nil {
		x.all = make(map[indexKey]keptIndex)
	}
	x.all[key] = keptIndex{i, bytes}
	x.order, x.bytes = append(x.order, key), x.bytes+bytes
	for len(x.order) > 1 && (len(x.order) > maxIndexes || x.bytes > maxIndexBytes) {
		x.bytes -= x.all[x.order[0]].bytes
		delete(x.all, x.order[0])
		x.order = x.order[1:]
	}
}
