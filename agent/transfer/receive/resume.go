// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"

	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// resume returns a needed file with what earlier attempts made safe of it, in at most as many ranges as most says. What
// cannot be proven to be of the same file is given up, and, if the session verifies, what is not as it was received.
func (m *matcher) resume(
	ctx context.Context, index uint64, e *tree.Entry, most int,
) (*inFile, []journal.Range, error) {
	c, f := m.checkpoints, m.newFile(index, e)
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal == nil {
		return f, nil, nil
	}
	old, ok := c.journal.Find(e.Path)
	if !ok {
		return f, nil, nil
	}
	written, _, err := m.destination.Staged(old.Number)
	if err != nil {
		return nil, nil, err
	}
	ranges := c.journal.Ranges(old.Number)
	fresh := f.number
	f.number = old.Number
	proven := old == *f.recorded() && e.Changed != 0 && len(ranges) > 0 && len(ranges) <= most
	switch {
	case proven && m.terms.verify:
		c.journalMu.Unlock()
		proven, err = m.proven(ctx, f)
		c.journalMu.Lock()
	case proven:
		proven, err = m.reaches(f, ranges[len(ranges)-1])
	}
	if err != nil {
		return nil, nil, err
	}
	if !proven {
		f.number = fresh
		c.resent.Add(written)
		if err := c.journal.Done(old.Number); err != nil {
			return nil, nil, err
		}
		return f, nil, m.destination.Discard(old.Number)
	}
	f.resume(ranges, m.terms.verify)
	f.got = f.safe
	c.resent.Add(max(0, written-f.safe))
	return f, ranges, nil
}

// reaches reports whether the staged file is long enough for its last range.
func (m *matcher) reaches(f *inFile, last journal.Range) (bool, error) {
	staged, err := m.destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	var b [1]byte
	_, err = staged.ReadAt(b[:], min((last.First+last.Count)*m.terms.chunk, f.entry.Size)-1)
	return err == nil, nil // What cannot be read comes again.
}

// proven reads back what the journal says of a file, and compares.
func (m *matcher) proven(ctx context.Context, f *inFile) (bool, error) {
	c := m.checkpoints
	staged, err := m.destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	buf := make([]byte, m.terms.chunk)
	for from := int64(0); ; {
		c.journalMu.Lock()
		first, digests, err := c.journal.Digests(f.number, from)
		c.journalMu.Unlock()
		if err != nil || len(digests) == 0 {
			return err == nil, err
		}
		for i := range digests {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			m.activity.touch() // It may take long.
			offset := (first + int64(i)) * m.terms.chunk
			b := buf[:min(m.terms.chunk, f.entry.Size-offset)]
			if _, err := staged.ReadAt(b, offset); err != nil || protocol.DigestOf(b) != digests[i] {
				return false, nil // What cannot be read comes again.
			}
		}
		from = first + int64(len(digests))
	}
}

// safeRanges are ranges as they travel.
func safeRanges(position int, ranges []journal.Range) *wirev1.Safe {
	safe := &wirev1.Safe{Position: uint32(position)}
	for _, r := range ranges {
		safe.Ranges = append(safe.Ranges, &wirev1.ChunkRange{First: uint64(r.First), Count: uint64(r.Count)})
	}
	return safe
}
