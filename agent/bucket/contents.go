// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// digestBuffer is how much is read at once, in bytes.
	digestBuffer = 256 << 10
	// maxTargets bounds the paths of files that have further names, in bytes: they are held while a receipt is computed.
	maxTargets = 64 << 20
)

// digested is what a file has.
type digested struct {
	size int64
	sum  [sha256.Size]byte
}

// WalkAgain is Walk after another one: what it leaves out was counted then. Digest is for what it visits.
func (s *Source) WalkAgain(ctx context.Context, visit func(*tree.Entry) error) error {
	if err := s.findTargets(ctx); err != nil {
		return err
	}
	again := *s
	again.omissions = &tree.Omissions{}
	return again.Walk(ctx, visit)
}

// findTargets reads in the index which files have further names, that their digests are kept.
func (s *Source) findTargets(ctx context.Context) error {
	s.targets = make(map[string]*digested)
	index, err := openIndex(ctx, s.store)
	if err != nil {
		return unusable(ctx, s.store, err)
	}
	defer func() { _ = index.close() }() // It was only read.
	weight := 0
	for {
		r, err := index.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unusable(ctx, s.store, err)
		}
		if r.entry.Type != tree.HardLink {
			continue
		}
		if _, there := s.targets[r.entry.Target]; there {
			continue
		}
		s.targets[r.entry.Target] = nil
		if weight += len(r.entry.Target) + sha256.Size; weight > maxTargets {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_RECEIPT_UNSUPPORTED,
				"the paths of files with hard links have more than %d MiB, which is too much for a receipt: set spec.receipt: "+
					"false, or move a directory at a time", maxTargets>>20)
		}
	}
}

// Digest is that of send.ContentSource. Files are read whole, and further names of a file not again.
func (s *Source) Digest(e *tree.Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error) {
	if e.Type == tree.HardLink {
		of := s.targets[e.Target]
		if of == nil { // The walk visits a file before its further names.
			return 0, sum, tree.ErrChanged
		}
		return of.size, of.sum, nil
	}
	file := contents.NewFile(alive)
	if err := s.copy(e, file); err != nil {
		return 0, sum, err
	}
	size, sum = file.Sum()
	if _, more := s.targets[e.Path]; more {
		s.targets[e.Path] = &digested{size, sum}
	}
	return size, sum, nil
}

// copy writes the content of a file to w.
func (s *Source) copy(e *tree.Entry, w io.Writer) error {
	switch {
	case e.Size == 0:
		return nil
	case e.Place == nil:
		return s.read(e, 0, e.Size, func(r io.Reader) error {
			_, err := io.CopyBuffer(w, r, make([]byte, min(e.Size, digestBuffer)))
			return err //nolint:wrapcheck // read does.
		})
	}
	// A small file is compared with its own checksum, too, when it is read at once.
	part := min(e.Size, windowSize)
	p := make([]byte, part)
	for offset := int64(0); offset < e.Size; offset += part {
		p = p[:min(part, e.Size-offset)]
		if err := s.ReadAt(e, p, offset); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err //nolint:wrapcheck // It is that of alive.
		}
	}
	return nil
}

// Digest compares what a store's prefix holds with what an origin has, after Write, and returns the digest of the
// content manifest. Everything is read once more, at both ends. What only the prefix has is not in it.
func Digest(ctx context.Context, origin send.ContentSource, store Store) (*wirev1.ContentDigest, error) {
	digest, err := contents.NewDigest(nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // It is of the manifest.
	}
	c := &contentComparison{ctx: ctx, origin: origin, there: NewSource(ctx, store, nil), digest: digest}
	next, stop := iter.Pull2(c.entries())
	defer stop()
	c.next = next
	if err := origin.WalkAgain(ctx, c.visit); err != nil {
		return nil, err
	}
	return &wirev1.ContentDigest{
		Sha256: digest.Sum(), Entries: digest.Files + digest.Links, Bytes: digest.Bytes, CpuNanos: uint64(c.spent),
	}, nil
}

// contentComparison is a Digest under way.
type contentComparison struct {
	ctx    context.Context //nolint:containedctx // It is that of the attempt, which this is a part of.
	origin send.ContentSource
	there  *Source
	digest *contents.Digest
	spent  time.Duration

	next func() (*tree.Entry, error, bool)
	// ahead is the entry of the prefix that no entry of the origin came to yet.
	ahead *tree.Entry
}

var errStopped = errors.New("nobody asks any more")

// entries are those of the prefix.
func (c *contentComparison) entries() iter.Seq2[*tree.Entry, error] {
	return func(yield func(*tree.Entry, error) bool) {
		err := c.there.WalkAgain(c.ctx, func(e *tree.Entry) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// at returns what the prefix has under a path, which comes after the one before; nil if it has nothing. A file that has
// further names is digested on the way, as they may be of the origin.
func (c *contentComparison) at(path string) (*tree.Entry, error) {
	for c.ahead == nil || tree.Compare(c.ahead.Path, path) < 0 {
		e, err, ok := c.next()
		if err != nil || !ok {
			return nil, err
		}
		c.ahead = e
		if _, more := c.there.targets[e.Path]; more && e.Type == tree.File && tree.Compare(e.Path, path) < 0 {
			if _, _, err := c.there.Digest(e, c.alive); err != nil {
				return nil, err
			}
		}
	}
	if c.ahead.Path != path {
		return nil, nil
	}
	return c.ahead, nil
}

// visit compares an entry of the origin with what the prefix has in its place.
func (c *contentComparison) visit(e *tree.Entry) error {
	if e.Type != tree.File && e.Type != tree.HardLink && e.Type != tree.Symlink {
		return nil
	}
	want, err := c.entry(c.origin, e)
	if errors.Is(err, tree.ErrChanged) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"%q changed while its receipt was computed, and nothing was signed: stop what writes to the source, or snapshot "+
				"it; the next attempt writes what has changed", failure.Shorten(e.Path, failure.MaxMessage/2))
	}
	if err != nil {
		return err
	}
	var found contents.Entry
	at, err := c.at(e.Path)
	if err == nil && at != nil {
		found, err = c.entry(c.there, at)
	}
	if err != nil && !errors.Is(err, tree.ErrChanged) {
		return err
	}
	if err != nil || found != want {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
			"%q in the bucket is not what the source holds, so nothing was signed: stop what writes to either, and check that "+
				"a bucket can hold the name", failure.Shorten(e.Path, failure.MaxMessage/2))
	}
	// Of what was found, so that it states what the bucket holds.
	return c.digest.Add(&found) //nolint:wrapcheck // It names the path.
}

// entry is an entry as manifests have it; the zero value for what they do not have.
func (c *contentComparison) entry(of send.ContentSource, e *tree.Entry) (contents.Entry, error) {
	switch e.Type {
	case tree.Symlink:
		return contents.LinkTo(e.Path, e.Target), nil
	case tree.File, tree.HardLink:
	default:
		return contents.Entry{}, nil
	}
	entry := contents.Entry{Path: e.Path}
	var size int64
	var err error
	c.spent += meter.ThreadCPU(func() { size, entry.SHA256, err = of.Digest(e, c.alive) })
	entry.Size = uint64(size)
	return entry, err //nolint:wrapcheck // It names the path, or is that of alive.
}

func (c *contentComparison) alive() error { return context.Cause(c.ctx) }
