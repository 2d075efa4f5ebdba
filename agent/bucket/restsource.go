// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxRestingFiles bounds the files whose indexes are held. Of their bytes there are no more than maxIndexes.
const maxRestingFiles = 64

// restingPauses are how long to wait before another look at an object that does not belong to its index. Who writes
// puts one after the other, the index first.
var restingPauses = [...]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond,
	320 * time.Millisecond}

// SetForm says that there may be files in a form where no index of the prefix says it: a.csv.gz beside its index
// .a.csv.gz.lgci. Walk then finds the plain file, a.csv, instead of both, unless something else has that name. It must
// be called before Walk.
func (s *Source) SetForm(form cargo.Form) { s.form = form }

// formBy is the form in which there are files: that which the index of the prefix says, or without an index the one
// that was asked for. 0: none.
func (s *Source) formBy(index *indexReader) (cargo.Form, error) {
	form := index.form
	switch {
	case index.object == nil:
		form = s.form
	case s.form != 0 && form != s.form:
		is := "as they are, or in archives"
		if form != 0 {
			is = fmt.Sprintf("in form %v", form)
		}
		return 0, failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"the files are in the bucket %s, by the index %s, and not in form %v: remove spec.source.form", is, IndexName,
			s.form)
	}
	s.resting.found.Store(uint32(form))
	return form, nil
}

// rests reports whether a file rests in a form.
func rests(e *tree.Entry) bool { return e.Form != 0 }

// late asks for what the index has of a file and the list has not.
func (s *Source) late(ctx context.Context, f *found) (*listed, error) {
	if !f.record.rests() {
		object, err := s.store.Head(ctx, f.path)
		return &listed{path: f.path, object: &object}, err
	}
	form := s.resting.form()
	object, err := s.store.Head(ctx, form.Name(f.path))
	if err != nil {
		return nil, err
	}
	index, err := s.store.Head(ctx, form.IndexPath(f.path))
	if err != nil {
		return nil, err
	}
	return &listed{path: f.path, object: &object, sidecar: &index}, nil
}

// restingEntry is the plain file of what rests; nil if that does not move.
func (s *Source) restingEntry(ctx context.Context, f *found) (*tree.Entry, error) {
	if !s.filter.Match(f.path, false) {
		return nil, nil
	}
	object, index := f.listed.object, f.listed.sidecar
	if f.known() {
		e := f.record.entry
		e.Changed = version(object.ETag)
		e.Place, e.Form = &tree.Place{Stored: object.Size, Index: index.Size}, s.resting.form()
		return &e, nil
	}
	object, place, size, err := s.lookResting(ctx, f.path, object, index)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // Removed after it was listed, as if a little earlier.
	case err != nil:
		return nil, err
	}
	plain := *object
	plain.Size = size
	var e *tree.Entry
	if f.record != nil && f.record.entry.Type == tree.File {
		e = rewritten(&f.record.entry, &plain)
	} else {
		e = s.file(f.path, &plain)
	}
	e.Place, e.Form = place, s.resting.form()
	return e, nil
}

// lookResting returns what rests of a file, and the length of the plain file, by the index of that. object and index
// are what is known of them; nil: nothing. It looks again before it takes an index for wrong. It returns fs.ErrNotExist
// if there is nothing any more.
func (s *Source) lookResting(ctx context.Context, path string, object, index *objectstore.Object) (
	_ *objectstore.Object, at *tree.Place, plain int64, err error,
) {
	form := s.resting.form()
	for n := 0; ; n++ {
		if object == nil {
			found, err := s.store.Head(ctx, form.Name(path))
			if errors.Is(err, objectstore.ErrNotFound) {
				return nil, nil, 0, fs.ErrNotExist
			}
			if err != nil {
				return nil, nil, 0, err
			}
			object = &found
		}
		var wrong error
		if index == nil {
			found, err := s.store.Head(ctx, form.IndexPath(path))
			if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
				return nil, nil, 0, err
			}
			index, wrong = &found, err
		}
		if wrong == nil {
			var stored int64
			file := objectFile{ctx, s.store, form.IndexPath(path), index.ETag}
			plain, stored, _, wrong = cargo.Sizes(form, file, index.Size)
			switch {
			case wrong == nil && stored == object.Size:
				return object, &tree.Place{Stored: stored, Index: index.Size}, plain, nil
			case wrong == nil:
				wrong = fmt.Errorf("it is of an object of %d bytes, and this one has %d", stored, object.Size)
			case !doubtful(wrong):
				return nil, nil, 0, wrong
			}
		}
		if n == len(restingPauses) {
			return nil, nil, 0, s.badIndex(path, wrong)
		}
		if err := pause(ctx, restingPauses[n]); err != nil {
			return nil, nil, 0, err
		}
		object, index = nil, nil
	}
}

// doubtful reports whether an error of reading an object by its index may be because these are replaced meanwhile.
func doubtful(err error) bool {
	return errors.Is(err, cargo.ErrCorrupt) || errors.Is(err, objectstore.ErrNotFound) ||
		errors.Is(err, objectstore.ErrChanged) || tooShort(err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Source) badIndex(path string, err error) error {
	form := s.resting.form()
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
		"the object %q cannot be restored, because it or its index %q is damaged or of another file (%w): restore both, or "+
			"put the file again; or add it to spec.exclude", failure.Shorten(form.Name(path), failure.MaxMessage/4),
		failure.Shorten(form.IndexPath(path), failure.MaxMessage/4), err)
}

// restingAgain is Again for a file that rests.
func (s *Source) restingAgain(e *tree.Entry) (*tree.Entry, error) {
	object, place, size, err := s.lookResting(s.ctx, e.Path, nil, nil)
	if err != nil {
		return nil, err
	}
	if version(object.ETag) == e.Changed {
		return e, nil
	}
	plain := *object
	plain.Size = size
	now := rewritten(e, &plain)
	now.Place, now.Form = place, e.Form
	return now, nil
}

// readResting is ReadAt for a file that rests. It reads what rests of the range by one request.
func (s *Source) readResting(e *tree.Entry, p []byte, offset int64) error {
	return s.settled(e, s.expand(e, p, offset))
}

// Carry returns the block of a range of a file that rests, as it travels; see cargo.Index.Carry. ok is false if ReadAt
// is to be used. It returns tree.ErrChanged as ReadAt does.
func (s *Source) Carry(e *tree.Entry, offset int64, length int, buf []byte) (
	h frame.Header, payload []byte, ok bool, err error,
) {
	index, err := s.resting.index(s, e)
	if err == nil {
		h, payload, ok, err = index.Carry(restingObject{s, e}, offset, length, buf)
	}
	return h, payload, ok, s.settled(e, err)
}

// Index returns the index of a file that rests. Errors are those of ReadAt.
func (s *Source) Index(e *tree.Entry) (*cargo.Index, error) {
	index, err := s.resting.index(s, e)
	return index, s.settled(e, err)
}

// Rest returns what rests of a block of a file, by the index that Index returned; see cargo.Index.Rest. Errors are
// those of ReadAt.
func (s *Source) Rest(e *tree.Entry, index *cargo.Index, block int, buf []byte) ([]byte, error) {
	rest, err := index.Rest(restingObject{s, e}, block, buf)
	return rest, s.settled(e, err)
}

// settled is an error of reading a file that rests by its index: tree.ErrChanged if that is because it is another one
// now, or soon.
func (s *Source) settled(e *tree.Entry, err error) error {
	if !doubtful(err) {
		return err
	}
	// The index may have been replaced before the object.
	for _, d := range restingPauses {
		object, err := s.store.Head(s.ctx, s.resting.form().Name(e.Path))
		if errors.Is(err, objectstore.ErrNotFound) || err == nil && version(object.ETag) != e.Changed {
			return tree.ErrChanged
		}
		if err != nil {
			return err
		}
		if err := pause(s.ctx, d); err != nil {
			return err
		}
	}
	return s.badIndex(e.Path, err)
}

func (s *Source) expand(e *tree.Entry, p []byte, offset int64) error {
	index, err := s.resting.index(s, e)
	if err != nil {
		return err
	}
	block, one := index.At(offset, len(p))
	if one && s.resting.zeros.has(block) {
		clear(p)
		return nil
	}
	r, err := cargo.NewReader(restingObject{s, e}, e.Place.Stored, index, s.unpacker.engines())
	if err != nil {
		return err
	}
	defer r.Close()
	plain := &filling{p[:0]}
	if err := r.WriteRange(s.ctx, plain, offset, int64(len(p)), 1); err != nil {
		return err
	}
	if len(plain.bytes) != len(p) {
		return fmt.Errorf("%w: the file ends at byte %d", cargo.ErrCorrupt, offset+int64(len(plain.bytes)))
	}
	if one && isZeros(p) {
		s.resting.zeros.add(block)
	}
	return nil
}

// restingObject is what rests of a file that Walk found. What is another object now is tree.ErrChanged.
type restingObject struct {
	source *Source
	entry  *tree.Entry
}

// ReadAt implements io.ReaderAt.
func (o restingObject) ReadAt(p []byte, offset int64) (int, error) {
	r, err := o.OpenRange(o.source.ctx, offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.ReadFull(r, p)
}

// OpenRange implements cargo.RangeOpener.
func (o restingObject) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := o.source.store.Get(ctx, o.source.resting.form().Name(o.entry.Path), "", offset, length)
	if err != nil {
		return nil, err
	}
	if version(r.ETag()) != o.entry.Changed {
		r.Close()
		return nil, tree.ErrChanged
	}
	return r, nil
}

// restingFiles are the indexes of files that were read last.
type restingFiles struct {
	found atomic.Uint32 // the form that Walk found
	zeros zerosRead

	mu  sync.Mutex
	all []*restingFile // the last used one last
}

type restingFile struct {
	path    string
	changed int64
	once    sync.Once
	index   *cargo.Index
	bytes   int64
	err     error
}

func (f *restingFiles) form() cargo.Form { return cargo.Form(f.found.Load()) }

// index returns that of a file.
func (f *restingFiles) index(s *Source, e *tree.Entry) (*cargo.Index, error) {
	f.mu.Lock()
	i := slices.IndexFunc(f.all, func(one *restingFile) bool { return one.path == e.Path && one.changed == e.Changed })
	one := &restingFile{path: e.Path, changed: e.Changed, bytes: e.Place.Index}
	if i >= 0 {
		one = f.all[i]
		f.all = slices.Delete(f.all, i, i+1)
	}
	f.all = append(f.all, one)
	bytes := int64(0)
	for i := len(f.all) - 1; i >= 0; i-- {
		bytes += f.all[i].bytes
		if i < len(f.all)-1 && (bytes > maxIndexes || len(f.all)-i > maxRestingFiles) {
			f.all = slices.Delete(f.all, 0, i+1)
			break
		}
	}
	f.mu.Unlock()
	one.once.Do(func() { one.index, one.err = s.readIndex(e) })
	if one.err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = slices.DeleteFunc(f.all, func(other *restingFile) bool { return other == one })
	}
	return one.index, one.err
}

// readIndex reads the index of a file.
func (s *Source) readIndex(e *tree.Entry) (*cargo.Index, error) {
	form := s.resting.form()
	if e.Place.Index < 1 || e.Place.Index > cargo.MaxIndex {
		return nil, fmt.Errorf("%w: it has %d bytes", cargo.ErrIndex, e.Place.Index)
	}
	b, err := readAll(s.ctx, s.store, form.IndexPath(e.Path), "", e.Place.Index)
	if err != nil {
		return nil, err
	}
	i, err := cargo.ParseIndex(b)
	if err != nil {
		return nil, err
	}
	if i.Form() != form || i.Size() != e.Size || i.StoredSize() != e.Place.Stored {
		return nil, fmt.Errorf("%w: it is of a file of %d bytes in %d, and this one has %d in %d", cargo.ErrIndex, i.Size(),
			i.StoredSize(), e.Size, e.Place.Stored)
	}
	return i, nil
}
