// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// smallIndex is the most bytes of an index of a file that is verified beside others.
const smallIndex = 1 << 20

// Tree verifies the files of a tree that rest in a form: a.csv.gz by its index .a.csv.gz.lgci. Of files with other
// names there is no checksum, and a.csv.gz without an index is a finding, whoever wrote it. It returns nil when it has
// looked at everything: what was found is in the omissions of the source, which has no form set.
func Tree(ctx context.Context, source *tree.Source, form cargo.Form, o Options) error {
	t := &resting{source: source, form: form, options: &o}
	return Run(ctx, &o, source.Omissions(), t.pass)
}

// resting is a Tree under way.
type resting struct {
	source  *tree.Source
	form    cargo.Form
	options *Options
}

func (t *resting) pass(ctx context.Context, f *Findings, first bool) error {
	walk := t.source.WalkAgain
	if first {
		walk = t.source.Walk
	}
	files := false
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(max(t.options.Workers, 1))
	err := walk(inner, func(e *tree.Entry) error {
		if e.Type != tree.File { // A hard link is a further name of a file.
			return nil
		}
		files = true
		directory, name := tree.Split(e.Path)
		plain, ok := t.form.PlainName(name)
		switch {
		case !ok:
			if first {
				f.Found(e.Path, NoChecksum)
			}
		case strings.HasSuffix(name, cargo.IndexSuffix):
			return t.indexed(f, beside(directory, t.form.Name(plain)))
		case f.Wants(e.Path):
			f.Total(e.Size)
			return t.file(inner, g, f, e, beside(directory, t.form.IndexName(plain)))
		}
		return nil
	})
	if waited := g.Wait(); waited != nil { // It has ended the walk.
		return waited
	}
	if err == nil && !files && first {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY,
			"the directory has no files, so there is nothing to verify: check the path")
	}
	return err //nolint:wrapcheck // Walk does.
}

// beside is a name in a directory.
func beside(directory, name string) string {
	if directory == tree.Root {
		return name
	}
	return directory + "/" + name
}

// indexed looks whether the file is there that an index is of.
func (t *resting) indexed(f *Findings, path string) error {
	if !f.Wants(path) {
		return nil
	}
	_, err := t.source.Again(&tree.Entry{Path: path, Type: tree.File})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, tree.ErrChanged) {
		f.Found(path, tree.OmittedMissing)
		return nil
	}
	return err //nolint:wrapcheck // It names the path.
}

// file verifies a file that rests, beside others unless its index is long.
func (t *resting) file(ctx context.Context, g *errgroup.Group, f *Findings, e *tree.Entry, indexPath string) error {
	index, what, err := t.index(indexPath, e.Size)
	if err != nil || what != "" {
		f.Found(e.Path, what)
		return err
	}
	verify := func() error {
		what, err := t.verify(ctx, f, e, index)
		if err != nil {
			return fmt.Errorf("%q: %w", failure.Shorten(e.Path, failure.MaxMessage/2), err)
		}
		if f.Found(e.Path, what); what == "" {
			f.Verified(e.Size)
		}
		return nil
	}
	if index.Blocks() > smallIndex/cargo.BlockSize {
		return verify()
	}
	g.Go(verify)
	return nil
}

// index reads an index, which is to be of a file of which so many bytes rest.
func (t *resting) index(path string, stored int64) (index *cargo.Index, what string, err error) {
	e, err := t.source.Again(&tree.Entry{Path: path, Type: tree.File})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, tree.ErrChanged): // It is none.
		return nil, IndexMissing, nil
	case err != nil:
		return nil, "", err //nolint:wrapcheck // It names the path.
	case e.Size == 0:
		return nil, IndexInvalid, nil
	case e.Size > MaxIndex:
		what, err := t.longIndex(e, stored)
		return nil, what, err
	}
	b := make([]byte, e.Size)
	switch err := t.source.ReadAt(e, b, 0); {
	case errors.Is(err, tree.ErrChanged):
		return nil, Changing, nil
	case errors.Is(err, syscall.EIO):
		return nil, IndexInvalid, nil
	case err != nil:
		return nil, "", err //nolint:wrapcheck // It names the path.
	}
	index, err = cargo.ParseIndex(b)
	if err != nil || index.Form() != t.form {
		return nil, IndexInvalid, nil //nolint:nilerr // It is what was found.
	}
	return index, "", nil
}

// longIndex looks at the beginning of an index.
func (t *resting) longIndex(e *tree.Entry, stored int64) (what string, err error) {
	return t.opened(e, func(of *tree.SourceFile) (string, error) { return LongIndex(t.form, file{of}, e.Size, stored) })
}

// verify compares a file with its index.
func (t *resting) verify(ctx context.Context, f *Findings, e *tree.Entry, index *cargo.Index) (what string, err error) {
	return t.opened(e, func(of *tree.SourceFile) (string, error) {
		f.Read(e.Size)
		what, err := Resting(ctx, t.options, file{of}, e.Size, index, io.Discard)
		if errors.Is(of.Check(), tree.ErrChanged) {
			return Changing, nil
		}
		return what, err
	})
}

// opened looks into a file, which may be changing.
func (t *resting) opened(e *tree.Entry, look func(*tree.SourceFile) (string, error)) (what string, err error) {
	of, err := t.source.Open(e)
	if err == nil {
		defer of.Close()
		what, err = look(of)
	}
	if errors.Is(err, tree.ErrChanged) {
		return Changing, nil
	}
	return what, err //nolint:wrapcheck // It names the path.
}

// file is a file of a tree as cargo reads it.
type file struct{ *tree.SourceFile }

// ReadAt implements io.ReaderAt.
func (f file) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.SourceFile.ReadAt(p, offset); err != nil {
		return 0, err //nolint:wrapcheck // It names the path.
	}
	return len(p), nil
}
