// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
)

// listed is what a list of the store has under one path.
type listed struct {
	path string
	// object is nil if there are only names below. It is what rests of the file if there is an index, sidecar: then
	// beside says that there is an object under the plain name, too.
	object, sidecar *objectstore.Object
	beside          bool
	// below: there are names below it.
	below bool
}

// lister lists a store in the order of tree.Compare. What cannot be an entry's path is passed to unfit, a directory
// once for all that is in it.
type lister struct {
	store Store
	// enter reports whether anything in a directory is asked for; nil: always.
	enter func(path string) bool
	unfit func(path string)
	// form of files that may rest in one; 0: none does. An object of a file in it and the index beside that are listed
	// under the plain name; with strict only if nothing else has that.
	form   cargo.Form
	strict bool
}

func (l *lister) all(ctx context.Context) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		l.directory(ctx, tree.Root, yield)
	}
}

// directory reports whether to go on.
func (l *lister) directory(ctx context.Context, path string, yield func(listed, error) bool) bool {
	name := path
	if path == tree.Root {
		name = ""
	}
	children, err := l.store.Directory(ctx, name)
	if err != nil {
		yield(listed{}, err)
		return false
	}
	names := namesOf(children)
	if l.form != 0 {
		names = l.plainNames(children)
	}
	for i := range names {
		child := &names[i]
		if child.Name == "" && child.Object != nil && child.Object.Size == 0 && !child.Directory {
			continue // Consoles make such objects so that there is a directory.
		}
		at := joined(path, child.Name)
		if path == tree.Root && reserved(child.Name) {
			continue
		}
		if child.Name == Reserved || tree.CheckPath(at) != nil || l.store.Check(at) != nil {
			l.unfit(at)
			continue
		}
		found := listed{
			path: at, object: child.Object, sidecar: child.sidecar, beside: child.beside, below: child.Directory,
		}
		if !yield(found, nil) {
			return false
		}
		if child.Directory && (l.enter == nil || l.enter(at)) && !l.directory(ctx, at, yield) {
			return false
		}
	}
	return true
}

func joined(parent, name string) string {
	if parent == tree.Root {
		return name
	}
	return parent + "/" + name
}

// reserved reports whether a name at the root is not a file's: ours, or that of probes.
func reserved(name string) bool { return name == Reserved || strings.HasPrefix(name, Reserved+"-") }

// reservedPath reports whether a path is not a file's. An index in a subdirectory would be taken for ours by who reads
// that subdirectory.
func reservedPath(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return reserved(first) || strings.Contains("/"+path+"/", "/"+Reserved+"/")
}

// reservedRoot reports whether a path is the topmost that is reserved, which counts for all that is in it.
func reservedRoot(path string) bool {
	parent, _ := tree.Split(path)
	return reservedPath(path) && !reservedPath(parent)
}

// found is what a bucket has under one path: what the list and what the index says. At least one of them is set.
type found struct {
	path   string
	listed *listed
	record *record
}

// object is what is listed; nil if there is none.
func (f *found) object() *objectstore.Object {
	if f == nil || f.listed == nil {
		return nil
	}
	return f.listed.object
}

// known reports whether the index's record is of what is listed.
func (f *found) known() bool {
	if f == nil || f.record == nil {
		return false
	}
	object := f.object()
	switch e := &f.record.entry; {
	case f.record.isObject():
		return object != nil && object.ETag == f.record.etag && object.Size == f.record.size() &&
			f.sidecar() == f.record.index
	case e.Type == tree.Directory:
		return object == nil
	default:
		return f.listed == nil
	}
}

// resting reports whether there is an object of the file in a form, and its index.
func (f *found) resting() bool { return f != nil && f.listed != nil && f.listed.sidecar != nil }

// sidecar is the ETag of the index of a file that rests in a form; empty: there is none.
func (f *found) sidecar() string {
	if !f.resting() {
		return ""
	}
	return f.listed.sidecar.ETag
}

// plain is the name of the object that is under the path itself; empty: there is none.
func (f *found) plain() string {
	if f.object() == nil || f.resting() && !f.listed.beside {
		return ""
	}
	return f.path
}

// below reports whether the list has something under the path.
func (f *found) below() bool { return f != nil && f.listed != nil && f.listed.below }

// both goes through list and index together.
type both struct {
	next  func() (listed, error, bool)
	stop  func()
	index *indexReader
	// lenient reports whether an index that cannot be read on is taken for one that ends there; nil: never. broken is
	// why, then.
	lenient func(error) bool
	broken  error

	listed *listed
	record *record
	now    *found
}

func newBoth(ctx context.Context, l *lister, index *indexReader, lenient func(error) bool) (*both, error) {
	index.unfit = l.unfit
	b := &both{index: index, lenient: lenient}
	b.next, b.stop = iter.Pull2(l.all(ctx))
	if err := b.advanceList(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.advanceIndex(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.combine()
	return b, nil
}

func (b *both) close() error {
	b.stop()
	return b.index.close()
}

func (b *both) advanceList() error {
	item, err, ok := b.next()
	if b.listed = nil; ok && err == nil {
		b.listed = &item
	}
	return err
}

func (b *both) advanceIndex() error {
	r, err := b.index.next()
	b.record = r
	if err != nil && b.lenient != nil && b.lenient(err) {
		b.broken, err = err, io.EOF
	}
	if errors.Is(err, io.EOF) {
		b.record = nil
		return nil
	}
	return err
}

// combine sets what is under the lesser of the two paths.
func (b *both) combine() {
	switch {
	case b.listed == nil && b.record == nil:
		b.now = nil
	case b.record == nil || b.listed != nil && tree.Compare(b.listed.path, b.record.entry.Path) < 0:
		b.now = &found{path: b.listed.path, listed: b.listed}
	case b.listed == nil || tree.Compare(b.record.entry.Path, b.listed.path) < 0:
		b.now = &found{path: b.record.entry.Path, record: b.record}
	default:
		b.now = &found{path: b.listed.path, listed: b.listed, record: b.record}
	}
}

// peek returns what is next; nil at the end.
func (b *both) peek() *found { return b.now }

// advance goes on after what peek returned.
func (b *both) advance() error {
	f := b.now
	if f.listed != nil {
		if err := b.advanceList(); err != nil {
			return err
		}
	}
	if f.record != nil {
		if err := b.advanceIndex(); err != nil {
			return err
		}
	}
	b.combine()
	return nil
}
