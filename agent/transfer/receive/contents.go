// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// contentChecker compares the sender's content manifest with what the destination holds, which it reads: what an
// earlier attempt or an earlier run wrote, too. Only the goroutine that reads the session uses it.
type contentChecker struct {
	destination Destination
	activity    *activity

	digest *contents.Digest // nil before the first part
	spent  time.Duration
}

// take checks a part of the manifest.
func (c *contentChecker) take(ctx context.Context, m *wirev1.Contents) error {
	if n := len(m.GetEntries()); n > protocol.MaxEntries {
		return protocol.Invalid("a part of the content manifest with %d entries; it must have at most %d", n,
			protocol.MaxEntries)
	}
	if c.digest == nil {
		var err error
		if c.digest, err = contents.NewDigest(nil); err != nil {
			return err
		}
	}
	for _, w := range m.GetEntries() {
		claimed := contents.Entry{Path: string(w.GetPath()), Symlink: w.GetSymlink(), Size: w.GetSize()}
		if err := tree.CheckPath(claimed.Path); err != nil || claimed.Path == tree.Root {
			return protocol.Invalid("path %.200q in the content manifest cannot be used", claimed.Path)
		}
		if copy(claimed.SHA256[:], w.GetSha256()) != len(w.GetSha256()) || len(w.GetSha256()) != sha256.Size {
			return protocol.Invalid("the content manifest has a digest of %d bytes", len(w.GetSha256()))
		}
		found, err := c.look(ctx, &claimed)
		if err != nil {
			return err
		}
		if found != claimed {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
				"%q at the destination is not what the source holds, so nothing was signed: stop what writes to either claim, "+
					"and check that the receiving agent may read the file", failure.Shorten(claimed.Path, failure.MaxMessage/2))
		}
		// Of what was found, so that it is this side's digest.
		if err := c.digest.Add(&found); err != nil {
			return protocol.Invalid("%w", err)
		}
	}
	return nil
}

// look returns what is at the destination under the name of an entry; one without a path if there is nothing of its
// kind.
func (c *contentChecker) look(ctx context.Context, claimed *contents.Entry) (found contents.Entry, err error) {
	if claimed.Symlink {
		target, ok, err := c.destination.ReadLink(claimed.Path)
		if !ok || err != nil {
			return found, err
		}
		return contents.LinkTo(claimed.Path, target), nil
	}
	file := contents.NewFile(func() error {
		c.activity.touch() // A file may take long.
		return context.Cause(ctx)
	})
	var size int64
	c.spent += meter.ThreadCPU(func() { size, err = c.destination.ReadContent(claimed.Path, file) })
	if size < 0 || err != nil {
		return found, err
	}
	found = contents.Entry{Path: claimed.Path, Size: uint64(size)}
	_, found.SHA256 = file.Sum()
	return found, nil
}

// finish compares the whole with what the sender says of it, and with what it announced.
func (c *contentChecker) finish(f *wirev1.Finish, m *manifest) (*wirev1.ContentDigest, error) {
	if c.digest == nil {
		return nil, protocol.Invalid("the sender finished without the content manifest that it had promised")
	}
	d := c.digest
	if !bytes.Equal(f.GetContentsSha256(), d.Sum()) {
		return nil, protocol.Invalid("the sender's digest of the content manifest is not that of what it sent")
	}
	if d.Files != m.files+m.hardLinks || d.Links != m.symlinks {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"the source had %d files and %d symbolic links when it was read and %d and %d when its receipt was computed, so "+
				"nothing was signed: stop what writes to the claim, or snapshot it",
			m.files+m.hardLinks, m.symlinks, d.Files, d.Links)
	}
	return &wirev1.ContentDigest{
		Sha256: d.Sum(), Entries: d.Files + d.Links, Bytes: d.Bytes, CpuNanos: uint64(c.spent),
	}, nil
}
