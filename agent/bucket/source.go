// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Modes of what no index knows.
const (
	defaultFileMode      = 0o644
	defaultDirectoryMode = 0o755
)

const (
	permissions      = 0o777
	groupPermissions = 0o070
	accessACL        = "system.posix_acl_access"
)

// Source is a bucket that is read. It is safe for concurrent use, but for Walk.
type Source struct {
	ctx       context.Context //nolint:containedctx // It is that of the attempt, for which a Source is made.
	store     Store
	filter    *filter.Filter
	omissions *tree.Omissions
	now       int64
	unpacker  *unpacker
	// targets are the files that have further names, with their digests; nil before WalkAgain.
	targets map[string]*digested
	indexed func(time.Time)
	// form in which files may rest where no index says it; 0: none.
	form    cargo.Form
	resting *restingFiles
}

// NewSource returns the source that a store's prefix is. What the filter excludes is left out. Its requests end with
// the context.
func NewSource(ctx context.Context, store Store, f *filter.Filter) *Source {
	return &Source{
		ctx: ctx, store: store, filter: f, omissions: &tree.Omissions{}, now: time.Now().UnixNano(),
		resting: &restingFiles{},
		unpacker: &unpacker{
			ctx: ctx, store: store, engines: sync.OnceValue(engines.Default), numbers: make(map[string]uint32),
		},
	}
}

// Inflate has files in archives inflated with engines, which is called when there are some. Without it these are all of
// the build. It must be called before ReadAt.
func (s *Source) Inflate(engines func() *codec.Registry) {
	s.unpacker.engines = sync.OnceValue(engines)
}

// Indexed has f told when the index was written, by each Walk that finds one. It must be called before Walk.
func (s *Source) Indexed(f func(time.Time)) { s.indexed = f }

// Omissions returns what walks left out.
func (s *Source) Omissions() *tree.Omissions { return s.omissions }

// Walk calls visit for every entry in the order of tree.Compare, which starts with the root. It ends with the first
// error of visit. Objects that cannot be files are counted in Omissions.
func (s *Source) Walk(ctx context.Context, visit func(*tree.Entry) error) error {
	index, err := openIndex(ctx, s.store)
	if err != nil {
		return unusable(ctx, s.store, err)
	}
	if index.object == nil {
		if err := unusable(ctx, s.store, errNoIndex); err != nil {
			return err
		}
	}
	if s.indexed != nil && !index.written.IsZero() {
		s.indexed(index.written)
	}
	form, err := s.formBy(index)
	if err != nil {
		return errors.Join(err, index.close())
	}
	b, err := newBoth(ctx, &lister{
		store: s.store, enter: s.filter.Enter, form: form, strict: true,
		unfit: func(path string) { s.omissions.Add(tree.OmittedObject, path) },
	}, index, nil)
	if err != nil {
		return unusable(ctx, s.store, err)
	}
	defer func() { _ = b.close() }() // It was only read.
	w := &walker{source: s, visit: visit}
	if f := b.peek(); f == nil || f.path != tree.Root {
		if err := w.emit(s.directory(tree.Root)); err != nil {
			return err
		}
	}
	something := false
	for f := b.peek(); f != nil; f = b.peek() {
		if err := b.advance(); err != nil {
			return unusable(ctx, s.store, err)
		}
		something = true
		if err := w.take(ctx, f); err != nil {
			return err
		}
	}
	if !something {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"the bucket has nothing below the prefix: check prefix of the ObjectStore and spec.source.objectStore.path")
	}
	return nil
}

// walker makes entries of what a bucket has.
type walker struct {
	source *Source
	visit  func(*tree.Entry) error
	// open are the directories that the last entry is in, and itself if it is one. Those from waiting on are excluded,
	// but for what moves in them, and not visited yet.
	open    []*tree.Entry
	waiting int
}

// emit visits an entry after the directories that it is in.
func (w *walker) emit(e *tree.Entry) error {
	for ; w.waiting < len(w.open); w.waiting++ {
		if err := w.visit(w.open[w.waiting]); err != nil {
			return err
		}
	}
	if e.Type == tree.Directory {
		w.open, w.waiting = append(w.open, e), len(w.open)+1
	}
	return w.visit(e)
}

// take visits what is under a path, if it moves.
func (w *walker) take(ctx context.Context, f *found) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !w.enter(f.path) {
		return nil // The index has it in a directory that is something else now.
	}
	filter := w.source.filter
	e, err := w.source.entry(ctx, f)
	switch {
	case err != nil:
		return err
	case e == nil:
		return nil
	case e.Type == tree.Directory && !filter.Match(f.path, true):
		if filter.Enter(f.path) {
			w.open = append(w.open, e)
		}
		return nil
	case e.Type != tree.Directory && !filter.Match(f.path, false):
		return nil
	}
	if f.object() != nil && f.below() {
		w.source.omissions.Add(tree.OmittedObject, f.path)
	}
	return w.emit(e)
}

// enter leaves the directories that a path is not in, and reports whether it is in the one that is left.
func (w *walker) enter(path string) bool {
	if path == tree.Root {
		return true
	}
	parent, _ := tree.Split(path)
	for len(w.open) > 0 && w.open[len(w.open)-1].Path != parent {
		last := w.open[len(w.open)-1].Path
		if last == tree.Root || tree.Within(path, last) {
			return false
		}
		w.open = w.open[:len(w.open)-1]
	}
	w.waiting = min(w.waiting, len(w.open))
	return len(w.open) > 0
}

// entry is what is under a path; nil if that is nothing which moves.
func (s *Source) entry(ctx context.Context, f *found) (*tree.Entry, error) {
	object := f.object()
	switch {
	case f.below():
		if f.record != nil && f.record.entry.Type == tree.Directory {
			return &f.record.entry, nil
		}
		return s.directory(f.path), nil
	case f.resting():
		return s.restingEntry(ctx, f)
	case object != nil && f.known():
		e := f.record.entry
		e.Changed = version(object.ETag)
		return &e, nil
	case object != nil:
		if there, err := s.whole(ctx, f.path, object); !there || err != nil {
			return nil, err
		}
		if f.record != nil && f.record.entry.Type == tree.File {
			return rewritten(&f.record.entry, object), nil
		}
		return s.file(f.path, object), nil
	}
	e := f.record.entry
	switch {
	case f.record.archive != "":
		return s.unpacker.entry(f.record)
	case e.Type == tree.File:
		return s.unlisted(ctx, f)
	case e.Type == tree.HardLink:
		return s.hardLink(ctx, f.record)
	default:
		return &e, nil
	}
}

// whole reports whether there is an object that the index does not know, as far as it is worth a request. Some servers
// list a replacement character in place of what XML cannot hold. One without content may be the beginning of a file,
// which ReadAt finds out of others. What is left out is counted.
func (s *Source) whole(ctx context.Context, path string, object *objectstore.Object) (bool, error) {
	if object.Size > 0 && !strings.ContainsRune(path, unicode.ReplacementChar) || !s.filter.Match(path, false) {
		return true, nil
	}
	present, err := s.store.Head(ctx, path)
	gone := errors.Is(err, objectstore.ErrNotFound)
	if err != nil && !gone {
		return false, err
	}
	if gone || cut(present.Metadata, present.Size) {
		s.omissions.Add(tree.OmittedObject, path)
		return false, nil
	}
	return true, nil
}

// unlisted asks for a file that the index has and the list has not: lists may lag.
func (s *Source) unlisted(ctx context.Context, f *found) (*tree.Entry, error) {
	if !s.filter.Match(f.path, false) {
		return nil, nil
	}
	at, err := s.late(ctx, f)
	switch {
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrName):
		s.omissions.Add(tree.OmittedMissing, f.path)
		return nil, nil
	case err != nil:
		return nil, err
	}
	late := found{path: f.path, listed: at, record: f.record}
	return s.entry(ctx, &late)
}

// hardLink is nil for a further name of a file that does not move.
func (s *Source) hardLink(ctx context.Context, r *record) (*tree.Entry, error) {
	e := &r.entry
	if s.filter.Match(e.Target, false) && !reservedPath(e.Target) {
		if r.linked {
			return e, nil // Its file is in an archive, and in the index as well.
		}
		_, err := s.store.Head(ctx, e.Target)
		if form := s.resting.form(); form != 0 && errors.Is(err, objectstore.ErrNotFound) {
			_, err = s.store.Head(ctx, form.Name(e.Target))
		}
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, objectstore.ErrNotFound) && !errors.Is(err, objectstore.ErrName) {
			return nil, err
		}
	}
	if s.filter.Match(e.Path, false) {
		s.omissions.Add(tree.OmittedHardLink, e.Path)
	}
	return nil, nil
}

// directory is one that no index knows. It has the time of the walk.
func (s *Source) directory(path string) *tree.Entry {
	return &tree.Entry{
		Path: path, Type: tree.Directory, Mode: defaultDirectoryMode, Modified: s.now,
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
}

// file is one that no index knows.
func (s *Source) file(path string, object *objectstore.Object) *tree.Entry {
	return &tree.Entry{
		Path: path, Type: tree.File, Mode: defaultFileMode, Size: object.Size, Modified: object.Modified.UnixNano(),
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Changed: version(object.ETag),
	}
}

// rewritten is a file whose object is another one than the index knows: of a run that broke off, or of somebody else.
// It keeps owner and mode, but nothing that would lend privilege to a content that nobody vouches for.
func rewritten(before *tree.Entry, object *objectstore.Object) *tree.Entry {
	mode := before.Mode & permissions
	if _, ok := before.Xattrs.Get(accessACL); ok {
		mode &^= groupPermissions // With an ACL they are its mask, which may be more than the group has.
	}
	return &tree.Entry{
		Path: before.Path, Type: tree.File, Mode: mode, Size: object.Size, Modified: object.Modified.UnixNano(),
		UID: before.UID, GID: before.GID, Changed: version(object.ETag),
	}
}

// version stands for an ETag in Entry.Changed. It is never 0.
func version(etag string) int64 {
	sum := sha256.Sum256([]byte(etag))
	return int64(binary.BigEndian.Uint64(sum[:])&math.MaxInt64 | 1)
}

// Again returns what a file that Walk found is now: fs.ErrNotExist when there is nothing any more.
func (s *Source) Again(e *tree.Entry) (*tree.Entry, error) {
	switch {
	case rests(e):
		return s.restingAgain(e)
	case e.Place != nil:
		return e, nil // Archives do not change.
	}
	object, err := s.store.Head(s.ctx, e.Path)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	if version(object.ETag) == e.Changed {
		return e, nil
	}
	return rewritten(e, &object), nil
}

// ReadAt fills p with the bytes of a file that Walk found, from offset on. It returns tree.ErrChanged when the object
// is not the one that Walk found, or a part of a file that somebody began to put.
func (s *Source) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	switch {
	case rests(e):
		return s.readResting(e, p, offset)
	case e.Place != nil:
		return s.unpacker.readAt(e, p, offset)
	}
	return s.read(e, offset, int64(len(p)), func(r io.Reader) error {
		_, err := io.ReadFull(r, p)
		return err //nolint:wrapcheck // read does.
	})
}

// read hands what an object has from offset on to take.
func (s *Source) read(e *tree.Entry, offset, length int64, take func(io.Reader) error) error {
	r, err := s.store.Get(s.ctx, e.Path, "", offset, length)
	if errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, objectstore.ErrChanged) || tooShort(err) {
		return tree.ErrChanged
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // It was only read.
	if version(r.ETag()) != e.Changed || cut(r.Metadata(), e.Size) {
		return tree.ErrChanged
	}
	if err := take(r); err != nil {
		if errors.Is(err, objectstore.ErrChanged) || errors.Is(err, objectstore.ErrNotFound) {
			return tree.ErrChanged
		}
		return fmt.Errorf("read %q: %w", failure.Shorten(e.Path, 256), err)
	}
	return nil
}

// tooShort reports whether an object ends before the range that was asked for.
func tooShort(err error) bool {
	var e *objectstore.Error
	return errors.As(err, &e) && e.Code == "InvalidRange"
}
