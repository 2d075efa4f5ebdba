// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
)

// encrypted reports whether the index of a prefix is, as it rests.
func encrypted(ctx context.Context, store Store) (bool, error) {
	object, err := store.Head(ctx, IndexName)
	if errors.Is(err, objectstore.ErrNotFound) || err == nil && object.Size < int64(len(agefile.Magic)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r, err := store.Get(ctx, IndexName, object.ETag, 0, int64(len(agefile.Magic)))
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }() // It was only read.
	b := make([]byte, len(agefile.Magic))
	if _, err := io.ReadFull(r, b); err != nil {
		return false, fmt.Errorf("read %s: %w", IndexName, err)
	}
	return string(b) == agefile.Magic, nil
}

// bySums verifies encrypted objects as they rest, by sumsName.
func (s *scrubbing) bySums(ctx context.Context, f *scrub.Findings, first bool) error {
	object, err := s.store.Head(ctx, IndexName)
	if err == nil {
		s.options.Report.SetCopyTime(object.Modified)
	} else if !errors.Is(err, objectstore.ErrNotFound) && !errors.Is(err, syscall.EIO) { // Its sum is compared below.
		return err
	}
	all, err := s.sums(ctx)
	switch {
	case errors.Is(err, errSums), errors.Is(err, syscall.EIO):
		f.Found(sumsName, scrub.IndexInvalid)
		return nil
	case err != nil:
		return err
	case all == nil:
		f.Found(sumsName, scrub.IndexMissing)
		return nil
	}
	if !first && f.Wants(sumsName) {
		f.Everything()
		first = true
	}
	if first {
		if err := s.withoutSums(ctx, f, all); err != nil {
			return err
		}
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(min(max(s.options.Workers, 1), 4))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		object, want := Reserved+"/"+name, all[name]
		if inner.Err() != nil {
			break
		}
		if !f.Wants(object) {
			continue
		}
		g.Go(func() error {
			size, what, err := s.bySum(inner, f, object, want[:])
			if err != nil {
				return fmt.Errorf("verify %s: %w", object, err)
			}
			if f.Found(object, what); what == "" {
				f.Verified(size)
			}
			return nil
		})
	}
	return g.Wait()
}

// sums are those of the index that is there: those of nextSums if an attempt ended, or is, between the index and
// sumsName.
func (s *scrubbing) sums(ctx context.Context) (sums, error) {
	next, err := readSums(ctx, s.store, nextSums)
	if err != nil && !errors.Is(err, errSums) {
		return nil, err
	}
	if want := next.of(IndexName); want != nil {
		index, err := s.store.Head(ctx, IndexName)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			sum, err := sumOf(ctx, s.store, IndexName, index.ETag, index.Size)
			if err == nil && bytes.Equal(sum, want) {
				return next, nil
			}
			if err != nil && !errors.Is(err, objectstore.ErrChanged) && !errors.Is(err, objectstore.ErrNotFound) {
				return nil, err
			}
		}
	}
	return readSums(ctx, s.store, sumsName)
}

// withoutSums finds archives that have no sum, unless somebody writes there, whose archives get theirs at the end.
func (s *scrubbing) withoutSums(ctx context.Context, f *scrub.Findings, all sums) error {
	if _, err := s.store.Head(ctx, writerName); !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	for object, err := range s.store.List(ctx, archivesName) {
		if err != nil {
			return err
		}
		if summed(strings.TrimPrefix(object.Name, Reserved+"/")) && all.of(object.Name) == nil {
			f.Found(object.Name, scrub.NoChecksum)
		}
	}
	return nil
}

// bySum compares an object with its SHA-256.
func (s *scrubbing) bySum(
	ctx context.Context, f *scrub.Findings, name string, want []byte,
) (size int64, what string, err error) {
	at, err := s.store.Head(ctx, name)
	if errors.Is(err, objectstore.ErrNotFound) {
		f.Total(0)
		return 0, tree.OmittedMissing, nil
	}
	if err != nil {
		f.Total(0)
		what, err = changing(err)
		return 0, what, err
	}
	f.Total(at.Size)
	if at.Size == 0 {
		return 0, scrub.Damaged, nil
	}
	sum, err := sumOf(ctx, s.store, name, at.ETag, at.Size)
	if err != nil {
		what, err = changing(err)
		return 0, what, err
	}
	f.Read(at.Size)
	if !bytes.Equal(sum, want) {
		return 0, scrub.Damaged, nil
	}
	return at.Size, "", nil
}
