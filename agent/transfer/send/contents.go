// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// contentsPause is how long a sender that reads a large file says nothing.
const contentsPause = 10 * time.Second

// ContentSource is a Source that digests what it holds. Its methods are for one goroutine.
type ContentSource interface {
	// WalkAgain is Walk after another one: what it leaves out was counted then.
	WalkAgain(ctx context.Context, visit func(*tree.Entry) error) error
	// Digest returns size and SHA-256 of a file, or a further name of one, that WalkAgain visits. It calls alive before
	// each part, and ends with its error. It returns tree.ErrChanged when the file is not what was found, or changed
	// while it was read.
	Digest(e *tree.Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error)
}

// contentTeller computes the content manifest of the source and tells the receiver, when all that was needed is at
// the destination. It reads everything once more: chunks left in no order and several at once, of unchanged files
// none, and SHA-256 takes the bytes of a file one after the other.
type contentTeller struct {
	source  ContentSource
	session *session
	// files and bytes that were sent, for the first message; they are in it only.
	files, bytes uint64
	place        *Place // nil: there is one receiver

	digest *contents.Digest
	spent  time.Duration
	batch  []*wirev1.Content
	weight int
	told   time.Time
}

// run returns the digest of the manifest.
func (c *contentTeller) run(ctx context.Context) (*wirev1.ContentDigest, error) {
	var err error
	if c.digest, err = contents.NewDigest(nil); err != nil {
		return nil, err
	}
	if err := c.send(nil); err != nil {
		return nil, err
	}
	c.files, c.bytes = 0, 0
	if err := c.source.WalkAgain(ctx, func(e *tree.Entry) error { return c.add(ctx, e) }); err != nil {
		return nil, err
	}
	if err := c.flush(); err != nil {
		return nil, err
	}
	return &wirev1.ContentDigest{
		Sha256: c.digest.Sum(), Entries: c.digest.Files + c.digest.Links, Bytes: c.digest.Bytes, CpuNanos: uint64(c.spent),
	}, nil
}

func (c *contentTeller) add(ctx context.Context, e *tree.Entry) error {
	entry := contents.Entry{Path: e.Path}
	switch e.Type {
	case tree.File, tree.HardLink:
		size, sum, err := c.sum(ctx, e)
		if errors.Is(err, tree.ErrChanged) {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
				"%q changed while its receipt was computed, and nothing was signed: stop what writes to the claim, or snapshot "+
					"it; the next attempt sends what has changed", failure.Shorten(e.Path, failure.MaxMessage/2))
		}
		if err != nil {
			return err
		}
		entry.Size, entry.SHA256 = uint64(size), sum
	case tree.Symlink:
		entry = contents.LinkTo(e.Path, e.Target)
	default:
		return nil
	}
	if err := c.digest.Add(&entry); err != nil {
		return err
	}
	c.batch = append(c.batch, &wirev1.Content{
		Path: []byte(entry.Path), Symlink: entry.Symlink, Size: entry.Size, Sha256: entry.SHA256[:],
	})
	c.weight += len(entry.Path)
	if len(c.batch) == batchEntries || c.weight >= batchBytes || time.Since(c.told) > maxBatchAge {
		return c.flush()
	}
	return nil
}

// sum returns size and digest of a file, which another receiver's attempt may have computed. A hard link says nothing of
// which version of the file it is a name of.
func (c *contentTeller) sum(ctx context.Context, e *tree.Entry) (int64, [sha256.Size]byte, error) {
	read := func() (size int64, sum [sha256.Size]byte, err error) {
		c.spent += meter.ThreadCPU(func() {
			size, sum, err = c.source.Digest(e, func() error { return c.alive(ctx) })
		})
		return size, sum, err
	}
	if c.place == nil || e.Type != tree.File {
		return read()
	}
	return c.place.fan.sums.get(ctx, e.AppendIdentity(nil), func() error { return c.alive(ctx) }, read)
}

// alive tells the receiver every now and then that the sender is at work.
func (c *contentTeller) alive(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if time.Since(c.told) < contentsPause {
		return nil
	}
	return c.send(nil)
}

func (c *contentTeller) flush() error {
	if len(c.batch) == 0 {
		return nil
	}
	batch := c.batch
	c.batch, c.weight = nil, 0
	return c.send(batch)
}

func (c *contentTeller) send(batch []*wirev1.Content) error {
	c.told = time.Now()
	return c.session.send(
		&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Contents{Contents: &wirev1.Contents{
			Entries: batch, Files: c.files, Bytes: c.bytes,
		}}},
	)
}
