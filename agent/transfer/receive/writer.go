// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// writer writes the chunks of one stream into staged files.
type writer struct {
	destination Destination
	terms       *terms
	report      *Report
	checkpoints *checkpoints
	expected    *expected

	buffer []byte // for what is read back
	zeros  protocol.ZeroHash
}

// claim is a segment that was checked.
type claim struct {
	segment *protocol.Segment
	file    *inFile // nil if it was taken back
	section *section
	offset  int64 // in the file
	length  int64
	carried int64 // bytes of the segment that are in the block
	written int64 // bytes that are not a hole
}

// write puts a chunk into its file and gives the file its name if that was the last one.
func (w *writer) write(c *claim, bytes []byte) error {
	staged, err := w.destination.Stage(c.file.number, &c.file.entry)
	if err != nil {
		return err
	}
	defer staged.Close()
	spent := meter.ThreadCPU(func() {
		if c.carried < c.length {
			err = w.assemble(staged, c, bytes)
		} else {
			_, err = staged.WriteAt(bytes, c.offset)
		}
	})
	w.report.writing.Add(int64(spent))
	if err != nil {
		return err
	}
	return w.wrote(staged, c)
}

// wrote does what follows from a chunk that was written.
func (w *writer) wrote(staged StagedFile, c *claim) error {
	f := c.file
	var buffer []byte
	if w.terms.verify && f.rest == nil {
		buffer = w.chunk()
	}
	complete, takenBack, err := f.wrote(c.section, c.offset, staged, buffer)
	switch {
	case err != nil:
		return err
	case takenBack:
		// It may have been removed before it was written.
		return w.checkpoints.unstage(f)
	}
	if f.chunks > 1 {
		w.checkpoints.wrote(f, c.offset/w.terms.chunk, c.segment.Digest)
		w.expected.arrived(f, c.length)
	}
	if !complete {
		return nil
	}
	// No lock is held, so the other streams go on meanwhile.
	if f.chunks > 1 && f.rest == nil {
		if err := staged.Sync(); err != nil {
			return err
		}
	}
	if err := w.checkpoints.name(staged, f); err != nil {
		return err
	}
	w.expected.complete(f)
	return nil
}

// assemble puts a chunk together from what came, what is at the destination already and holes, and reads it back:
// whether or not the session verifies, nobody else has seen all of it in one piece.
func (w *writer) assemble(staged StagedFile, c *claim, bytes []byte) error {
	chunk, offset, length, s := w.terms.chunk, c.offset, c.length, c.segment
	var old *tree.OldFile
	if s.Reused != 0 {
		var err error
		if old, err = w.destination.OpenOld(c.file.entry.Path); err != nil {
			return err
		}
		if old == nil {
			return changedHere(c.file)
		}
		defer old.Close()
	}
	err := s.Absent().Runs(length, chunk, func(in bool, start, end int64) error {
		if in {
			return nil
		}
		_, err := staged.WriteAt(bytes[:end-start], offset+start)
		bytes = bytes[end-start:]
		return err
	})
	if err != nil {
		return err
	}
	err = s.Reused.Runs(length, chunk, func(in bool, start, end int64) error {
		switch {
		case !in:
			return nil
		case offset+end > old.Size():
			return changedHere(c.file)
		}
		return staged.CopyFrom(old, offset+start, end-start)
	})
	if err != nil {
		return err
	}
	err = s.Holes.Runs(length, chunk, func(in bool, start, end int64) error {
		if !in {
			return nil
		}
		return staged.WriteHole(offset+start, end-start)
	})
	if err != nil {
		return err
	}
	if err := w.readBack(staged, c); err != nil {
		return err
	}
	c.file.compared(c.section, offset)
	w.report.Update(func(p *wirev1.Progress) {
		p.ReusedBytes += uint64(s.Reused.Bytes(length, chunk))
		p.HoleBytes += uint64(s.Holes.Bytes(length, chunk))
	})
	return nil
}

// readBack compares a chunk that was put together with its digest.
func (w *writer) readBack(staged StagedFile, c *claim) error {
	digest, err := w.digest(staged, c)
	switch {
	case err != nil:
		return err
	case digest == c.segment.Digest:
		return nil
	case c.segment.Reused != 0:
		return changedHere(c.file)
	default:
		return wrongDigest(c)
	}
}

func (w *writer) digest(staged StagedFile, c *claim) (digest protocol.Digest, err error) {
	offset, length := c.offset, c.length
	if c.segment.Holes.Bytes(length, w.terms.chunk) == length {
		// It would be read as zeros.
		if hole, err := staged.IsHole(offset, length); hole || err != nil {
			return w.zeros.Digest(length), err
		}
	}
	bytes := w.chunk()[:length]
	if _, err := staged.ReadAt(bytes, offset); err != nil {
		return digest, fmt.Errorf("read back %q: %w", c.file.entry.Path, err)
	}
	return protocol.DigestOf(bytes), nil
}

// chunk returns a buffer of the length of a chunk.
func (w *writer) chunk() []byte {
	if w.buffer == nil {
		w.buffer = make([]byte, w.terms.chunk)
	}
	return w.buffer
}

func wrongDigest(c *claim) error {
	return protocol.Invalid(
		"a segment of %q at offset %d does not have its digest", c.file.entry.Path, c.segment.Offset,
	)
}

// changedHere says that what was to be reused is not there any more.
func changedHere(f *inFile) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED,
		"%q changed at the destination while parts of it were reused for its new version: stop what writes to the claim "+
			"there; the next attempt compares it again",
		failure.Shorten(f.entry.Path, failure.MaxMessage/2))
}
