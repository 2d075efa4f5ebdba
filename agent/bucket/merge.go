// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// merger compares the entries of an origin with what is there.
type merger struct {
	writing *writing
	there   *both
	// content: something else than directories was visited.
	content bool
	// superfluous is an object that the origin does not have and that is to be removed; empty: there is none.
	superfluous string
	// replaced is a directory that gives way to what the origin has in its place; empty: none does.
	replaced string
	// folding is nil where the server tells A from a.
	folding *folding
}

// visit decides what to do for an entry.
func (m *merger) visit(ctx context.Context, e *tree.Entry) error {
	if err := m.others(ctx, e.Path); err != nil {
		return err
	}
	var before *found
	if f := m.there.peek(); f != nil && f.path == e.Path {
		before = f
		if err := m.there.advance(); err != nil {
			return err
		}
	}
	w := m.writing
	switch {
	case reservedPath(e.Path):
		if reservedRoot(e.Path) {
			w.options.Origin.Omissions().Add(tree.OmittedStaging, e.Path)
		}
		return nil
	case e.Type == tree.File && !w.mayHave(e.Path):
		w.options.Origin.Omissions().Add(tree.OmittedObject, e.Path)
		return nil
	case e.Type == tree.Directory && w.form() != 0:
		// Servers that keep objects as files have no object of that name beside it.
		if err := tree.CheckResting(w.form(), e); err != nil {
			return err
		}
	case e.Type == tree.HardLink && (reservedPath(e.Target) || !w.mayHave(e.Target)):
		w.options.Origin.Omissions().Add(tree.OmittedObject, e.Path) // Its content is the target's, which is not stored.
		return nil
	}
	switch omitted, counted, err := m.folding.omit(e); {
	case err != nil:
		return err
	case counted:
		w.options.Origin.Omissions().Add(tree.OmittedObject, e.Path)
		return nil
	case omitted:
		return nil
	}
	m.content = m.content || e.Type != tree.Directory
	if err := m.clear(ctx, e, before); err != nil {
		return err
	}
	if e.Type == tree.File {
		return m.file(ctx, e, before)
	}
	s := &slot{record: record{entry: *e, linked: e.Type == tree.HardLink && w.options.Archive != nil}}
	if err := w.add(ctx, s); err != nil {
		return err
	}
	if w.options.Archive == nil || e.Path == tree.Root || before.known() && before.record.entry == *e {
		return nil
	}
	return w.give(ctx, &job{slot: s})
}

// give has a job done.
func (w *writing) give(ctx context.Context, j *job) error {
	select {
	case w.jobs <- j:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// file has a file put, unless it is there.
func (m *merger) file(ctx context.Context, e *tree.Entry, before *found) error {
	w := m.writing
	w.options.Report.Update(func(p *wirev1.Progress) {
		p.FilesTotal++
		p.BytesTotal += uint64(e.Size)
	})
	s := &slot{record: record{entry: *e}}
	if before.known() && unchanged(&before.record.entry, e) && w.stays(before.record) {
		s.record.keep(before.record)
		w.countRecords(&s.record)
		w.count(e, true)
		return w.add(ctx, s)
	}
	if w.resumed != nil {
		packed, err := w.resumed.find(ctx, e)
		if err != nil {
			return err
		}
		if packed != nil {
			s.record.keep(packed)
			w.count(e, true)
			return w.add(ctx, s)
		}
	}
	s.done = make(chan struct{})
	if err := w.add(ctx, s); err != nil {
		return err
	}
	return w.give(ctx, &job{slot: s, before: before})
}

// unchanged reports whether a file is the one that the index has an entry of.
func unchanged(before, e *tree.Entry) bool {
	return before.Type == tree.File && before.Size == e.Size && before.Modified == e.Modified &&
		(!e.Device || before.Changed == e.Changed)
}

// keep takes over where the content of a file is.
func (r *record) keep(before *record) {
	r.etag, r.part, r.index, r.stored = before.etag, before.part, before.index, before.stored
	r.archive, r.offset, r.crc = before.archive, before.offset, before.crc
	r.records = before.records
}

// clear notes what is in the place of an entry and is to be removed when the index is complete: an object in the place
// of what is no file, and a directory in the place of what is none, if Delete permits. It removes nothing: what takes
// the place only waits to be put.
func (m *merger) clear(ctx context.Context, e *tree.Entry, before *found) error {
	w := m.writing
	if before.plain() != "" && (e.Type != tree.File || w.options.Archive != nil || w.form() != 0) ||
		before.resting() && e.Type != tree.File {
		w.displaced = true
	}
	if e.Type == tree.Directory || !before.below() {
		return nil
	}
	if !w.options.Delete {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"objects below %q are in the place of what the source has under this name: remove them, set spec.delete: true, or "+
				"make a new Transfer with another spec.destination.objectStore.path", failure.Shorten(e.Path, 256))
	}
	for object, err := range w.options.Store.List(ctx, e.Path+"/") {
		if err != nil {
			return err
		}
		if reservedPath(object.Name) || !w.options.Filter.Match(object.Name, false) {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
				"objects that the filters exclude, or those of a Transfer that writes there, are in the place of %q: remove "+
					"them, or change spec.exclude", failure.Shorten(e.Path, 256))
		}
	}
	m.replaced = e.Path
	return nil
}

// others takes what is there and comes before a path that the origin has; empty: all that is left.
func (m *merger) others(ctx context.Context, before string) error {
	for f := m.there.peek(); f != nil && (before == "" || tree.Compare(f.path, before) < 0); f = m.there.peek() {
		if err := m.there.advance(); err != nil {
			return err
		}
		if m.replaced != "" && tree.Within(f.path, m.replaced) {
			continue
		}
		filter, directory := m.writing.options.Filter, f.object() == nil && (f.below() ||
			f.record != nil && f.record.entry.Type == tree.Directory)
		if m.writing.options.Delete && filter.Match(f.path, directory) {
			if f.object() != nil || f.record != nil && f.record.archive != "" {
				m.superfluous = f.path
			}
			continue
		}
		// What it says of an object that stays is still true. A directory with an object in its place is not known: sweep
		// would take the object for one that the source displaced. What is beside an image by the index alone is of files
		// that are gone, and nobody could restore the image with it.
		if f.known() && !m.writing.options.Image {
			if err := m.writing.add(ctx, &slot{record: *f.record}); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes an object and counts it.
func (w *writing) remove(ctx context.Context, name string) error {
	if err := w.options.Store.Delete(ctx, name); err != nil {
		return err
	}
	w.options.Report.Update(func(p *wirev1.Progress) { p.Removed++ })
	return nil
}

// sweep removes the objects in the place of what is no file by the index, which was just written, and with Delete those
// that are not in it and that the filter does not exclude.
func (w *writing) sweep(ctx context.Context) error {
	if err := w.hold.check(ctx); err != nil {
		return err
	}
	index, err := openIndex(ctx, w.options.Store)
	if err != nil {
		return err
	}
	there, err := newBoth(ctx, w.lister(), index, nil)
	if err != nil {
		return err
	}
	defer func() { _ = there.close() }() // It was only read.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.small.count())
	for f := there.peek(); f != nil && gctx.Err() == nil; f = there.peek() {
		if err := there.advance(); err != nil {
			return errorsOf(g, err)
		}
		if err := w.hold.checkOften(ctx); err != nil {
			return errorsOf(g, err)
		}
		superfluous := f.record == nil && w.options.Delete && w.options.Filter.Match(f.path, false)
		is := f.record != nil && f.record.isObject()
		if name := f.plain(); name != "" && (superfluous || f.record != nil && (!is || f.record.rests())) {
			g.Go(func() error {
				if paired, err := w.paired(gctx, name); paired || err != nil {
					return err
				}
				return w.remove(gctx, name)
			})
		}
		if f.resting() && (superfluous || f.record != nil && (!is || !f.record.rests())) {
			g.Go(func() error { return w.removeResting(gctx, f.path) })
		}
	}
	return g.Wait()
}

// errorsOf waits for what a group does and returns the error that came first.
func errorsOf(g *errgroup.Group, err error) error {
	_ = g.Wait() // The attempt fails anyway.
	return err
}

// storable reports whether an object can have the name of this file.
func (w *writing) storable(path string) bool { return w.options.Store.Check(path) == nil }

// giveWay removes what a server that keeps objects as files has in the place of a file, which is put next: sweep would
// come too late. The origin has directories above the file, and clear has permitted what is below it. why is returned
// if it is not. There may be nothing: another stream may have done it.
func (w *writing) giveWay(ctx context.Context, path string, why error) error {
	if err := w.hold.check(ctx); err != nil {
		return err
	}
	var names []string
	for above, _ := tree.Split(path); above != tree.Root; above, _ = tree.Split(above) {
		switch _, err := w.options.Store.Head(ctx, above); {
		case err == nil:
			names = append(names, above)
		case !errors.Is(err, objectstore.ErrNotFound) && !errors.Is(err, objectstore.ErrName):
			return err
		}
	}
	for object, err := range w.options.Store.List(ctx, path+"/") {
		switch {
		case err != nil:
			return err
		case !w.options.Delete || reservedPath(object.Name) || !w.options.Filter.Match(object.Name, false):
			return why
		case len(names) == objectstore.DefaultMaxNames:
			return why
		}
		names = append(names, object.Name)
	}
	for _, name := range names {
		if err := w.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
