// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"fmt"
	"io"
	"sync"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// sectionChunks is how many chunks are read back and compared together, so that digests of no more than the
// unfinished sections are kept.
const sectionChunks = 64

// inFile is a file that is being received. Each of its chunks comes once, in any order, on any stream.
type inFile struct {
	index  uint64
	number uint64 // of the staged file
	entry  tree.Entry
	chunk  int64
	chunks int64

	safe int64    // bytes that earlier attempts made safe
	got  int64    // bytes that are there, those included; guarded by mu
	rest *resting // nil unless it rests in a form
	old  bool     // there is another version of it at the destination
	// named, or given up; guarded by naming. takenBack is guarded by mu. They are here for they take less space so.
	named, takenBack bool
	// asked is the first part of that whose digest was not asked for.
	asked uint64

	// naming is held while the file is synced in the background, gets its name or is given up.
	naming sync.Mutex

	mu       sync.Mutex
	sections map[int64]*section
	done     []uint64 // a bit for each section that is finished
	left     int64    // sections that are not
}

// section is sectionChunks chunks of a file, or the last ones of it.
type section struct {
	number  int64
	want    uint64 // a bit for each chunk
	claimed uint64 // a stream has it
	written uint64
	safe    uint64            // it came in an earlier attempt, or was read back already: it is not compared
	digests []protocol.Digest // nil unless they are needed
}

func newInFile(index uint64, e tree.Entry, chunk int64) *inFile {
	chunks := (e.Size + chunk - 1) / chunk
	return &inFile{
		index: index, entry: e, chunk: chunk, chunks: chunks, left: (chunks + sectionChunks - 1) / sectionChunks,
	}
}

// claim checks that a segment is a chunk of the file that has not come yet, and takes it. It returns nil for a file
// that was taken back.
func (f *inFile) claim(s *protocol.Segment, digests bool) (*section, error) {
	if s.Offset >= uint64(f.entry.Size) || s.Offset%uint64(f.chunk) != 0 {
		return nil, protocol.Invalid(
			"a segment of %q at offset %d: the file has %d bytes in chunks of %d", f.entry.Path, s.Offset, f.entry.Size, f.chunk,
		)
	}
	offset := int64(s.Offset)
	if want := min(f.chunk, f.entry.Size-offset); int64(s.Length) != want {
		return nil, protocol.Invalid(
			"a segment of %q of %d bytes at offset %d: the chunk there has %d", f.entry.Path, s.Length, offset, want,
		)
	}
	if s.Reused != 0 && !f.old || s.Holes != 0 && !f.entry.Sparse {
		return nil, protocol.Invalid(
			"a segment of %q at offset %d: parts %#x are to be reused and %#x are holes, which cannot be", f.entry.Path,
			s.Offset, s.Reused, s.Holes,
		)
	}
	number := offset / f.chunk
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.takenBack {
		return nil, nil
	}
	sec, bit := f.section(number/sectionChunks, digests), uint64(1)<<(number%sectionChunks)
	if sec == nil || sec.claimed&bit != 0 {
		return nil, protocol.Invalid("a segment of %q at offset %d: it came before", f.entry.Path, offset)
	}
	sec.claimed |= bit
	if digests {
		sec.digests[number%sectionChunks] = s.Digest
	}
	return sec, nil
}

// digested notes the digest of a chunk that was claimed without one.
func (f *inFile) digested(sec *section, offset int64, digest protocol.Digest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sec.digests != nil {
		sec.digests[offset/f.chunk%sectionChunks] = digest
	}
}

// section returns a section that is not finished, nil if it is.
func (f *inFile) section(number int64, digests bool) *section {
	if int(number/64) < len(f.done) && f.done[number/64]>>(number%64)&1 != 0 {
		return nil
	}
	if sec := f.sections[number]; sec != nil {
		return sec
	}
	chunks := min(sectionChunks, f.chunks-number*sectionChunks)
	sec := &section{number: number, want: ^uint64(0) >> (64 - chunks)}
	if digests {
		sec.digests = make([]protocol.Digest, chunks)
	}
	if f.sections == nil {
		f.sections = make(map[int64]*section)
	}
	f.sections[number] = sec
	return sec
}

// compared notes that a chunk was read back.
func (f *inFile) compared(sec *section, offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sec.safe |= 1 << (offset / f.chunk % sectionChunks)
}

// finish forgets a section that is written and compared, and reports whether it was the file's last one.
func (f *inFile) finish(sec *section) (complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sections, sec.number)
	if f.left--; f.left == 0 {
		return !f.takenBack
	}
	if f.done == nil {
		f.done = make([]uint64, (f.chunks+64*sectionChunks-1)/(64*sectionChunks))
	}
	f.done[sec.number/64] |= 1 << (sec.number % 64)
	return false
}

// wrote notes a chunk that is in the staged file. What has digests is read back and compared when it was the last
// chunk of its section; buffer has the length of a chunk then. Most of it comes from the page cache, so that this
// finds what is misplaced, mixed up or damaged in memory, but not what the disk loses later.
func (f *inFile) wrote(
	sec *section, offset int64, staged io.ReaderAt, buffer []byte,
) (complete, takenBack bool, err error) {
	f.mu.Lock()
	sec.written |= 1 << (offset / f.chunk % sectionChunks)
	whole, takenBack := sec.written == sec.want, f.takenBack
	if !takenBack {
		f.got += min(f.chunk, f.entry.Size-offset)
	}
	f.mu.Unlock()
	if takenBack || !whole {
		return false, takenBack, nil
	}
	if err := f.compare(sec, staged, buffer); err != nil {
		return false, false, err
	}
	return f.finish(sec), false, nil
}

// compare reads a section back.
func (f *inFile) compare(sec *section, staged io.ReaderAt, buffer []byte) error {
	for i := range sec.digests {
		if sec.safe>>i&1 != 0 {
			continue // Compared when it was taken over, or put together.
		}
		offset := (sec.number*sectionChunks + int64(i)) * f.chunk
		bytes := buffer[:min(f.chunk, f.entry.Size-offset)]
		if _, err := staged.ReadAt(bytes, offset); err != nil {
			return fmt.Errorf("read back %q: %w", f.entry.Path, err)
		}
		if protocol.DigestOf(bytes) != sec.digests[i] {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
				"what was read back of %q at offset %d is not what was sent: suspect the memory or the file system of the "+
					"receiving node, or a fault of Lighterage (%s)",
				f.entry.Path, offset, wirev1.Version)
		}
	}
	return nil
}

// forget takes the file back and returns how many bytes of it were there.
func (f *inFile) forget() (bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takenBack, f.sections = true, nil
	if f.rest != nil {
		f.rest.advance()
	}
	return f.got
}

// recorded is the file as the journal knows it.
func (f *inFile) recorded() *journal.Entry {
	return &journal.Entry{
		Number: f.number, Path: f.entry.Path, Size: f.entry.Size, Modified: f.entry.Modified, Changed: f.entry.Changed,
		Mode: f.entry.Mode,
	}
}

// resume notes that chunks of the file are safe.
func (f *inFile) resume(ranges []journal.Range, digests bool) {
	for _, r := range ranges {
		end := r.First + r.Count
		f.safe += min(end*f.chunk, f.entry.Size) - r.First*f.chunk
		for first := r.First; first < end; {
			number := first / sectionChunks
			last := min(end, (number+1)*sectionChunks)
			mask := ^uint64(0) >> (64 - (last - first)) << (first % sectionChunks)
			sec := f.section(number, digests)
			sec.claimed, sec.written, sec.safe = sec.claimed|mask, sec.written|mask, sec.safe|mask
			if sec.written == sec.want {
				f.finish(sec)
			}
			first = last
		}
	}
}

// whole reports whether everything of the file is there.
func (f *inFile) whole() bool { return f.left == 0 }
