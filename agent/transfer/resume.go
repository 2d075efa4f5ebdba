// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// number returns one for a staged file. It is called by the goroutine that steers alone.
func (s *session) number() uint64 {
	s.numbers++
	return s.checkpoints.base + s.numbers - 1
}

// recorded is the file as the journal knows it.
func (f *inFile) recorded() *journal.Entry {
	return &journal.Entry{
		Number: f.number, Path: f.entry.Path, Size: f.entry.Size, Modified: f.entry.Modified, Changed: f.entry.Changed,
		Mode: f.entry.Mode,
	}
}

// resume returns a needed file with what earlier attempts made safe of it, in at most as many ranges as most says. What
// cannot be proven to be of the same file is given up, and, if the session verifies, what is not as it was received.
func (s *session) resume(index uint64, e *tree.Entry, most int) (*inFile, []journal.Range, error) {
	c := s.checkpoints
	f := newInFile(index, *e, s.chunk)
	f.number = s.number()
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal == nil {
		return f, nil, nil
	}
	old, ok := c.journal.Find(e.Path)
	if !ok {
		return f, nil, nil
	}
	written, _, err := s.Destination.Staged(old.Number)
	if err != nil {
		return nil, nil, err
	}
	ranges := c.journal.Ranges(old.Number)
	fresh := f.number
	f.number = old.Number
	proven := old == *f.recorded() && e.Changed != 0 && len(ranges) > 0 && len(ranges) <= most
	switch {
	case proven && s.verify:
		c.journalMu.Unlock()
		proven, err = s.proven(f)
		c.journalMu.Lock()
	case proven:
		proven, err = s.reaches(f, ranges[len(ranges)-1])
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
		return f, nil, s.Destination.Discard(old.Number)
	}
	f.resume(ranges, s.verify)
	f.got = f.safe
	c.resent.Add(max(0, written-f.safe))
	return f, ranges, nil
}

// reaches reports whether the staged file is long enough for its last range.
func (s *session) reaches(f *inFile, last journal.Range) (bool, error) {
	staged, err := s.Destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	var b [1]byte
	_, err = staged.ReadAt(b[:], min((last.First+last.Count)*s.chunk, f.entry.Size)-1)
	return err == nil, nil // What cannot be read comes again.
}

// proven reads back what the journal says of a file, and compares.
func (s *session) proven(f *inFile) (bool, error) {
	c := s.checkpoints
	staged, err := s.Destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	buf := make([]byte, s.chunk)
	for from := int64(0); ; {
		c.journalMu.Lock()
		first, digests, err := c.journal.Digests(f.number, from)
		c.journalMu.Unlock()
		if err != nil || len(digests) == 0 {
			return err == nil, err
		}
		for i := range digests {
			if err := s.ctx.Err(); err != nil {
				return false, err
			}
			s.touch() // It may take long.
			offset := (first + int64(i)) * s.chunk
			b := buf[:min(s.chunk, f.entry.Size-offset)]
			if _, err := staged.ReadAt(b, offset); err != nil || protocol.DigestOf(b) != digests[i] {
				return false, nil // What cannot be read comes again.
			}
		}
		from = first + int64(len(digests))
	}
}

// finishResumed gives a file its name of which earlier attempts had made everything safe.
func (s *session) finishResumed(f *inFile) error {
	staged, err := s.Destination.Stage(f.number, &f.entry)
	if err != nil {
		return err
	}
	defer staged.Close()
	return s.commit(staged, f)
}

// commit gives a file its name.
func (s *session) commit(staged StagedFile, f *inFile) error {
	f.naming.Lock()
	defer f.naming.Unlock()
	if err := staged.Commit(&f.entry); err != nil {
		return err
	}
	f.named = true
	s.checkpoints.done(f)
	return nil
}

// resume notes that chunks of the file are safe.
func (f *inFile) resume(ranges []journal.Range, digests bool) {
	for _, r := range ranges {
		end := r.First + r.Count
		f.safe += min(end*f.chunk, f.entry.Size) - r.First*f.chunk
		for first := r.First; first < end; {
			number := first / runChunks
			last := min(end, (number+1)*runChunks)
			mask := ^uint64(0) >> (64 - (last - first)) << (first % runChunks)
			run := f.run(number, digests)
			run.claimed, run.written, run.safe = run.claimed|mask, run.written|mask, run.safe|mask
			if run.written == run.want {
				f.finish(run)
			}
			first = last
		}
	}
}

// whole reports whether everything of the file is there.
func (f *inFile) whole() bool { return f.left == 0 }

// skip says what a sender does not send of a file.
type skip struct {
	ranges []*wirev1.ChunkRange
	bytes  int64
}

// skips checks what the receiver says is safe of the needed files of a batch, and returns it by position.
func skips(b batch, need *wirev1.Need) (map[int]skip, error) {
	if len(need.GetSafe()) == 0 {
		return nil, nil
	}
	all, total, next := make(map[int]skip, len(need.GetSafe())), 0, 0
	for _, safe := range need.GetSafe() {
		position := int(safe.GetPosition())
		total += len(safe.GetRanges())
		if position < next || position >= len(b.entries) || total > protocol.MaxRanges || len(safe.GetRanges()) == 0 {
			return nil, protocol.Invalid("the receiver says that something is safe of an entry that is out of order")
		}
		next = position + 1
		size := b.entries[position].Size
		chunks, end := uint64((size+protocol.ChunkSize-1)/protocol.ChunkSize), uint64(0)
		s := skip{ranges: safe.GetRanges()}
		for _, r := range s.ranges {
			first, count := r.GetFirst(), r.GetCount()
			if first < end || count == 0 || first >= chunks || count > chunks-first {
				return nil, protocol.Invalid("the receiver says that chunks are safe that %q does not have", b.entries[position].Path)
			}
			end = first + count
			s.bytes += min(int64(end)*protocol.ChunkSize, size) - int64(first)*protocol.ChunkSize
		}
		if s.bytes >= size {
			return nil, protocol.Invalid("the receiver needs %q and says that all of it is safe", b.entries[position].Path)
		}
		all[position] = s
	}
	return all, nil
}

// next returns the offset of the first chunk from offset on that is to be sent.
func (s *skip) next(offset int64) int64 {
	for len(s.ranges) > 0 {
		first, end := int64(s.ranges[0].GetFirst())*protocol.ChunkSize, int64(s.ranges[0].GetFirst()+s.ranges[0].GetCount())*protocol.ChunkSize
		if offset < first {
			return offset
		}
		if offset < end {
			offset = end
		}
		s.ranges = s.ranges[1:]
	}
	return offset
}

// safeRanges are ranges as they travel.
func safeRanges(position int, ranges []journal.Range) *wirev1.Safe {
	safe := &wirev1.Safe{Position: uint32(position)}
	for _, r := range ranges {
		safe.Ranges = append(safe.Ranges, &wirev1.ChunkRange{First: uint64(r.First), Count: uint64(r.Count)})
	}
	return safe
}
