// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// resumer finds out what earlier attempts made safe.
type resumer struct {
	destination Destination
	terms       *terms
	activity    *activity
	checkpoints *checkpoints
}

// resume takes over what earlier attempts made safe of a needed file, in at most as many ranges as most says, and
// returns these. What cannot be proven to be of the same file is given up, and, if the session verifies, what is not as
// it was received.
func (r *resumer) resume(ctx context.Context, f *inFile, most int) ([]journal.Range, error) {
	c := r.checkpoints
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal == nil {
		return nil, nil
	}
	old, ok := c.journal.Find(f.entry.Path)
	if !ok {
		return nil, nil
	}
	written, _, err := r.destination.Staged(old.Number)
	if err != nil {
		return nil, err
	}
	ranges := c.journal.Ranges(old.Number)
	fresh := f.number
	f.number = old.Number
	proven := old == *f.recorded() && f.entry.Changed != 0 && len(ranges) > 0 && len(ranges) <= most
	switch {
	case proven && f.rest != nil:
		c.journalMu.Unlock()
		proven, err = r.restingProven(f, ranges)
		c.journalMu.Lock()
	case proven && r.terms.verify:
		c.journalMu.Unlock()
		proven, err = r.proven(ctx, f)
		c.journalMu.Lock()
	case proven:
		proven, err = r.reaches(f, ranges[len(ranges)-1])
	}
	if err != nil {
		return nil, err
	}
	if !proven {
		f.number = fresh
		c.resent.Add(written)
		if err := c.journal.Done(old.Number); err != nil {
			return nil, err
		}
		return nil, c.unstage(&inFile{number: old.Number, rest: f.rest})
	}
	f.resume(ranges, r.terms.verify && f.rest == nil)
	f.got = f.safe
	safe := f.safe
	if f.rest != nil {
		safe = f.rest.tally.Next()
	}
	c.resent.Add(max(0, written-safe))
	return ranges, nil
}

// reaches reports whether the staged file is long enough for its last range.
func (r *resumer) reaches(f *inFile, last journal.Range) (bool, error) {
	staged, err := r.destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	var b [1]byte
	_, err = staged.ReadAt(b[:], min((last.First+last.Count)*r.terms.chunk, f.entry.Size)-1)
	return err == nil, nil // What cannot be read comes again.
}

// proven reads back what the journal says of a file, and compares.
func (r *resumer) proven(ctx context.Context, f *inFile) (bool, error) {
	c := r.checkpoints
	staged, err := r.destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	buf := make([]byte, r.terms.chunk)
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
			r.activity.touch() // It may take long.
			offset := (first + int64(i)) * r.terms.chunk
			b := buf[:min(r.terms.chunk, f.entry.Size-offset)]
			if _, err := staged.ReadAt(b, offset); err != nil || protocol.DigestOf(b) != digests[i] {
				return false, nil // What cannot be read comes again.
			}
		}
		from = first + int64(len(digests))
	}
}

// safeRanges are ranges of the file as they travel.
func (f *inFile) safeRanges(position int, ranges []journal.Range) *wirev1.Safe {
	safe := &wirev1.Safe{Position: uint32(position)}
	if f.rest != nil {
		if offset, ok := f.rest.tally.LatestRecord(); ok {
			safe.RecordOffset = proto.Uint64(uint64(offset))
		}
	}
	for _, r := range ranges {
		safe.Ranges = append(safe.Ranges, &wirev1.ChunkRange{First: uint64(r.First), Count: uint64(r.Count)})
	}
	return safe
}
