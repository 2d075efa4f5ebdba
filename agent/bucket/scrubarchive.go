// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
)

// extentsAtOnce bounds the files in archives whose places are held, of 24 bytes each. An archive of 256 MiB, which has
// at least 512 bytes for each file, has half as many at most.
const extentsAtOnce = 1 << 20

// extent is where a file is in an archive.
type extent struct {
	offset, size int64
	crc          uint32
}

// archives verifies archives; files says how many each has. With Inflate the index is read once
// more for each extentsAtOnce files.
func (s *scrubbing) archives(ctx context.Context, f *scrub.Findings, files map[string]int) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch object := archivesName + name; {
		case !f.Wants(object):
		case files[name] > extentsAtOnce:
			f.Found(object, scrub.IndexInvalid)
		default:
			names = append(names, name)
		}
	}
	for len(names) > 0 {
		n, held := 0, 0
		for n < len(names) && held+files[names[n]] <= extentsAtOnce {
			held += files[names[n]]
			n++
		}
		extents := make(map[string][]extent, n)
		if s.options.Inflate {
			for _, name := range names[:n] {
				extents[name] = nil
			}
			if err := s.collect(ctx, f, extents); err != nil {
				return err
			}
		}
		g, inner := errgroup.WithContext(ctx)
		g.SetLimit(s.archivesAtOnce())
		for _, name := range names[:n] {
			g.Go(func() error { return s.archive(inner, f, name, extents[name]) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// archivesAtOnce is how many archives are read at once: of one that is inflated several blocks are expanded at once.
func (s *scrubbing) archivesAtOnce() int {
	if s.options.Inflate {
		return 1
	}
	return min(max(s.options.Workers, 1), 4)
}

// collect reads in the index where files are in archives.
func (s *scrubbing) collect(ctx context.Context, f *scrub.Findings, of map[string][]extent) error {
	_, err := s.records(ctx, func(r *record) {
		if have, wanted := of[r.archive]; wanted && r.archive != "" {
			of[r.archive] = append(have, extent{r.offset, r.entry.Size, r.crc})
		}
	})
	if unreadable(err) {
		s.lacks(f)
	} else if err != nil {
		return err
	}
	for _, all := range of {
		slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.offset, b.offset) })
	}
	return nil
}

// archive verifies one.
func (s *scrubbing) archive(ctx context.Context, f *scrub.Findings, name string, files []extent) error {
	object := archivesName + name
	size, what, err := s.compareArchive(ctx, f, name, files)
	if err != nil {
		if what, err = changing(err); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
	}
	if f.Found(object, what); what == "" {
		f.Verified(size)
	}
	return nil
}

// compareArchive compares an archive with its index, and its files with that of the prefix.
func (s *scrubbing) compareArchive(
	ctx context.Context, f *scrub.Findings, name string, files []extent,
) (size int64, what string, err error) {
	form, _ := archiveForm(name) // The record was checked.
	at, err := s.store.Head(ctx, archivesName+name)
	if errors.Is(err, objectstore.ErrNotFound) {
		f.Total(0)
		return 0, tree.OmittedMissing, nil
	}
	if err != nil {
		return 0, "", err
	}
	f.Total(at.Size)
	index, what, err := s.index(ctx, archiveIndex(name), form, at.Size)
	if what != "" || err != nil {
		return 0, what, err
	}
	if at.Size == 0 {
		if index.StoredSize() != 0 {
			return 0, scrub.Damaged, nil
		}
		return 0, "", nil
	}
	f.Read(at.Size)
	plain := &extents{all: files}
	what, err = scrub.Resting(ctx, s.options, objectFile{ctx, s.store, archivesName + name, at.ETag}, at.Size, index, plain)
	if what == "" && err == nil && s.options.Inflate && !plain.whole() {
		what = scrub.IndexInvalid
	}
	return at.Size, what, err
}

// index reads the object with the index of an archive, or of a file in a form, of which so many bytes rest.
func (s *scrubbing) index(
	ctx context.Context, name string, form cargo.Form, stored int64,
) (index *cargo.Index, what string, err error) {
	at, err := s.store.Head(ctx, name)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil, scrub.IndexMissing, nil
	case err != nil:
		return nil, "", err
	case at.Size < 1:
		return nil, scrub.IndexInvalid, nil
	case at.Size > scrub.MaxIndex:
		what, err := scrub.LongIndex(form, objectFile{ctx, s.store, name, at.ETag}, at.Size, stored)
		return nil, what, err
	}
	b, err := readAll(ctx, s.store, name, at.ETag, at.Size)
	if errors.Is(err, syscall.EIO) {
		return nil, scrub.IndexInvalid, nil
	}
	if err != nil {
		return nil, "", err
	}
	if index, err = cargo.ParseIndex(b); err != nil || index.Form() != form {
		return nil, scrub.IndexInvalid, nil //nolint:nilerr // It is what was asked for.
	}
	return index, "", nil
}

// extents compares the files in a tar, which is written to it, with what an index says of them. That they overlap is
// wrong.
type extents struct {
	all   []extent
	at    int64
	sum   uint32
	wrong bool
}

// Write implements io.Writer.
func (x *extents) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		x.settle()
		if len(x.all) == 0 || x.wrong {
			x.at += int64(len(rest))
			break
		}
		next := x.all[0]
		n := int64(len(rest))
		if x.at < next.offset {
			n = min(n, next.offset-x.at)
		} else {
			n = min(n, next.offset+next.size-x.at)
			x.sum = crc32.Update(x.sum, crc32.IEEETable, rest[:n])
		}
		x.at, rest = x.at+n, rest[n:]
	}
	return len(p), nil
}

// settle ends the files that end here.
func (x *extents) settle() {
	for len(x.all) > 0 && !x.wrong {
		next := x.all[0]
		if x.at < next.offset+next.size {
			return
		}
		// One that begins before the end of the one before it overlaps that.
		x.wrong = x.sum != next.crc || len(x.all) > 1 && x.all[1].offset < next.offset+next.size
		x.all, x.sum = x.all[1:], 0
	}
}

// whole reports whether all files were in the tar, as the index says.
func (x *extents) whole() bool {
	x.settle()
	return len(x.all) == 0 && !x.wrong
}
