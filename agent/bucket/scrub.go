// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/md5" //nolint:gosec // ETags are MD5. They find faults, not forgeries.
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Scrub verifies what a store's prefix holds, or the archives in a claim, and writes nothing: archives by their
// indexes, and objects by the ETags in the index of the prefix, where these are MD5s. It returns nil when it has looked
// at everything: what was found is in the omissions of the report. With Inflate files in archives are compared with the
// index of the prefix as well.
// Encrypted archives are verified as they rest, by their SHA-256, or with Inflate in a store that is Decrypted.
func Scrub(ctx context.Context, store Store, o scrub.Options) error {
	s := &scrubbing{store: store, options: &o, counts: &tree.Omissions{}}
	sealed, err := encrypted(ctx, store)
	if err != nil && !errors.Is(err, cargo.ErrCorrupt) && !errors.Is(err, syscall.EIO) {
		return err
	}
	if sealed && !o.Inflate {
		return scrub.Run(ctx, &o, s.counts, s.bySums)
	}
	return scrub.Run(ctx, &o, s.counts, s.pass)
}

// scrubbing is a Scrub under way.
type scrubbing struct {
	store   Store
	options *scrub.Options
	counts  *tree.Omissions
	// invalid: the present pass could not read the index to its end.
	invalid bool
}

// pass goes through list and index, and then through the archives that the index names.
func (s *scrubbing) pass(ctx context.Context, f *scrub.Findings, first bool) error {
	s.invalid = false
	if !first && f.Wants(IndexName) {
		there, err := s.records(ctx, func(*record) {})
		if err != nil && !unreadable(err) {
			return err
		}
		if first = there && err == nil; first {
			f.Everything()
		}
	}
	index, err := openIndex(ctx, s.store)
	damaged := unreadable(err)
	switch {
	case damaged:
		s.lacks(f)
		index = &indexReader{}
	case err != nil:
		return err
	case index.object == nil:
		f.Found(IndexName, scrub.IndexMissing)
	default:
		s.options.Report.SetCopyTime(index.written)
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(max(s.options.Workers, 1))
	files, something, err := s.objects(inner, g, f, index, first)
	if waited := g.Wait(); waited != nil { // It has ended the rest.
		return waited
	}
	if err != nil {
		return err
	}
	if !something && !damaged {
		if something, err = hasArchives(ctx, s.store); err != nil {
			return err
		}
		if _, err := s.store.Head(ctx, writerName); something && err == nil {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
				"there are archives without an index, which the first run of the Transfer that writes there puts at its end: wait "+
					"for it, or run the Transfer again")
		} else if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
	}
	if !something && !damaged {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"there is nothing that could be verified: check the path in spec.source, and prefix of the ObjectStore if that is "+
				"one, or run the Transfer that writes there")
	}
	return s.archives(ctx, f, files)
}

// unreadable reports whether an index is damaged, or on a part of a disk that is. For a writer the latter is a failure.
func unreadable(err error) bool { return isDamaged(err) || errors.Is(err, syscall.EIO) }

// lacks finds that the index cannot be read to its end, in whatever pass: what it lacks is not looked at.
func (s *scrubbing) lacks(f *scrub.Findings) {
	if !s.invalid {
		s.invalid = true
		f.Found(IndexName, scrub.IndexInvalid)
	}
}

// records passes those of the index to visit. It reports whether there is one.
func (s *scrubbing) records(ctx context.Context, visit func(*record)) (there bool, err error) {
	index, err := openIndex(ctx, s.store)
	if err != nil {
		return false, err
	}
	defer func() { _ = index.close() }() // It was only read.
	index.unfit = func(string) {}
	for {
		r, err := index.next()
		if err != nil && (unreadable(err) || !errors.Is(err, io.EOF)) {
			return true, err
		}
		if err != nil {
			return index.object != nil, nil
		}
		visit(r)
	}
}

// objects verifies those that are files, in a group, and returns how many files each archive has by the index.
func (s *scrubbing) objects(
	ctx context.Context, g *errgroup.Group, f *scrub.Findings, index *indexReader, first bool,
) (files map[string]int, something bool, err error) {
	b, err := newBoth(ctx, &lister{store: s.store, unfit: func(string) {}, form: index.form}, index, unreadable)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = b.close() }() // It was only read.
	files = make(map[string]int)
	for at := b.peek(); at != nil; at = b.peek() {
		if err := b.advance(); err != nil {
			return nil, false, err
		}
		something = true
		switch r := at.record; {
		case r != nil && r.archive != "":
			files[r.archive]++
			if len(files) > maxArchives {
				return nil, false, unusable(ctx, s.store, errIndex)
			}
		case at.object() == nil && (r == nil || !r.isObject()):
		case r == nil || !r.isObject():
			if first {
				f.Found(at.path, scrub.NoChecksum)
			}
		case f.Wants(at.path):
			f.Total(r.size())
			g.Go(func() error {
				look := s.object
				if r.rests() {
					look = func(ctx context.Context, f *scrub.Findings, at *found) (string, error) {
						return s.resting(ctx, f, at, index.form)
					}
				}
				what, err := look(ctx, f, at)
				if err != nil {
					return err
				}
				if f.Found(at.path, what); what == "" {
					f.Verified(r.size())
				}
				return nil
			})
		}
	}
	if b.broken != nil {
		s.lacks(f)
	}
	return files, something, nil
}

// object compares an object with what the index says of it.
func (s *scrubbing) object(ctx context.Context, f *scrub.Findings, at *found) (what string, err error) {
	r := at.record
	if !at.known() {
		if what, err := s.other(ctx, at); what != "" || err != nil {
			return what, err
		}
	}
	if r.entry.Size == 0 {
		return "", nil
	}
	content, err := s.store.Get(ctx, at.path, r.etag, 0, r.entry.Size)
	if err != nil {
		return changing(err)
	}
	defer func() { _ = content.Close() }()                      // It was only read.
	simple, parts := md5.New(), newPartSums(max(r.part, 1<<20)) //nolint:gosec // See above.
	several := strings.Contains(r.etag, "-")
	to := io.Writer(simple)
	if several {
		to = parts
		if r.part == 0 {
			to = io.Discard
		}
	}
	n, err := io.Copy(to, content)
	f.Read(n)
	if err != nil {
		return changing(err)
	}
	sum := hex.EncodeToString(simple.Sum(nil))
	if several {
		sum = parts.etag()
	}
	switch {
	case sum == r.etag:
		return "", nil
	case r.part == 0: // The ETag is no MD5 of what was put, or nobody knows.
		return scrub.NoChecksum, nil
	default:
		return scrub.Damaged, nil
	}
}

// other asks for an object that is not listed as the one which the index names: lists may lag, a run may not have
// written its index yet, or it is of somebody else. It finds nothing if it is that one.
func (s *scrubbing) other(ctx context.Context, at *found) (what string, err error) {
	object, err := s.store.Head(ctx, at.path)
	switch r := at.record; {
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrName):
		return tree.OmittedMissing, nil
	case err != nil:
		return "", err
	case cut(object.Metadata, object.Size), object.ETag == r.etag && object.Size != r.entry.Size:
		return scrub.Damaged, nil
	case object.ETag == r.etag:
		return "", nil
	case object.Metadata[versionKey] != "":
		return scrub.NoChecksum, nil
	default:
		return scrub.ObjectReplaced, nil
	}
}

// changing makes what tells that an object is another one now a finding.
func changing(err error) (string, error) {
	if errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, objectstore.ErrChanged) || tooShort(err) {
		return scrub.Changing, nil
	}
	if errors.Is(err, cargo.ErrCorrupt) || errors.Is(err, syscall.EIO) { // It is encrypted, or on a bad disk.
		return scrub.Damaged, nil
	}
	return "", err
}
