// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// writeParts puts a chunk together from what came, what is at the destination already and holes, and reads it back:
// whether or not the session verifies, nobody else has seen all of it in one piece.
func (d *inStream) writeParts(staged StagedFile, c claim, s *protocol.Segment, bytes []byte) error {
	offset, length := int64(s.Offset), int64(s.Length)
	var old *tree.OldFile
	if s.Reused != 0 {
		var err error
		if old, err = d.Destination.OpenOld(c.file.entry.Path); err != nil {
			return err
		}
		if old == nil {
			return changedHere(c.file)
		}
		defer old.Close()
	}
	absent, holes := s.Absent(), s.Holes
	err := absent.Runs(length, d.chunk, func(in bool, start, end int64) error {
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
	err = s.Reused.Runs(length, d.chunk, func(in bool, start, end int64) error {
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
	err = holes.Runs(length, d.chunk, func(in bool, start, end int64) error {
		if !in {
			return nil
		}
		return staged.WriteHole(offset+start, end-start)
	})
	if err != nil {
		return err
	}
	if err := d.readBack(staged, c.file, s); err != nil {
		return err
	}
	c.file.compared(c.run, offset)
	reused := s.Reused.Bytes(length, d.chunk)
	d.Report.update(func(p *wirev1.Progress) {
		p.ReusedBytes += uint64(reused)
		p.HoleBytes += uint64(s.Holes.Bytes(length, d.chunk))
	})
	return nil
}

// readBack compares a chunk that was put together with its digest.
func (d *inStream) readBack(staged StagedFile, f *inFile, s *protocol.Segment) error {
	digest, err := d.digest(staged, f, s)
	switch {
	case err != nil:
		return err
	case digest == s.Digest:
		return nil
	case s.Reused != 0:
		return changedHere(f)
	default:
		return protocol.Invalid("a segment of %q at offset %d does not have its digest", f.entry.Path, s.Offset)
	}
}

func (d *inStream) digest(staged StagedFile, f *inFile, s *protocol.Segment) (digest protocol.Digest, err error) {
	offset, length := int64(s.Offset), int64(s.Length)
	if s.Holes.Bytes(length, d.chunk) == length {
		// It would be read as zeros.
		if hole, err := staged.IsHole(offset, length); hole || err != nil {
			return d.zeros.Digest(length), err
		}
	}
	if d.back == nil {
		d.back = make([]byte, d.chunk)
	}
	bytes := d.back[:length]
	if _, err := staged.ReadAt(bytes, offset); err != nil {
		return digest, fmt.Errorf("read back %q: %w", f.entry.Path, err)
	}
	return protocol.DigestOf(bytes), nil
}

// changedHere says that what was to be reused is not there any more.
func changedHere(f *inFile) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED,
		"%q changed at the destination while parts of it were reused for its new version: stop what writes to the claim "+
			"there; the next attempt compares it again",
		failure.Shorten(f.entry.Path, failure.MaxMessage/2))
}
