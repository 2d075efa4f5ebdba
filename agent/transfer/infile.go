// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
)

// runChunks is how many chunks are read back and compared together, so that digests of no more than the unfinished runs
// are kept.
const runChunks = 64

// inFile is a file that is being received. Each of its chunks comes once, in any order, on any stream.
type inFile struct {
	index  uint64
	number uint64 // of the staged file
	entry  tree.Entry
	chunk  int64
	chunks int64

	safe int64 // bytes that earlier attempts made safe
	got  int64 // bytes that are there, those included; guarded by mu
	old  bool  // there is another version of it at the destination
	// asked is the first part of that whose digest was not asked for.
	asked uint64

	// naming is held while the file is synced in the background, gets its name or is given up.
	naming sync.Mutex
	named  bool // or given up

	mu        sync.Mutex
	runs      map[int64]*run
	done      []uint64 // a bit for each run that is finished
	left      int64    // runs that are not
	takenBack bool
}

// run are runChunks chunks of a file, or the last ones of it.
type run struct {
	number  int64
	want    uint64 // a bit for each chunk
	claimed uint64 // a stream has it
	written uint64
	safe    uint64            // it came in an earlier attempt, or was read back already: it is not compared
	digests []protocol.Digest // nil unless they are needed
}

func newInFile(index uint64, e tree.Entry, chunk int64) *inFile {
	chunks := (e.Size + chunk - 1) / chunk
	return &inFile{index: index, entry: e, chunk: chunk, chunks: chunks, left: (chunks + runChunks - 1) / runChunks}
}

// claim checks that a segment is a chunk of the file that has not come yet, and takes it. It returns nil for a file
// that was taken back.
func (f *inFile) claim(s *protocol.Segment, digests bool) (*run, error) {
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
	if err := s.Check(f.chunk); err != nil {
		return nil, err
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
	r, bit := f.run(number/runChunks, digests), uint64(1)<<(number%runChunks)
	if r == nil || r.claimed&bit != 0 {
		return nil, protocol.Invalid("a segment of %q at offset %d: it came before", f.entry.Path, offset)
	}
	r.claimed |= bit
	if digests {
		r.digests[number%runChunks] = s.Digest
	}
	return r, nil
}

// run returns a run that is not finished, nil if it is.
func (f *inFile) run(number int64, digests bool) *run {
	if int(number/64) < len(f.done) && f.done[number/64]>>(number%64)&1 != 0 {
		return nil
	}
	if r := f.runs[number]; r != nil {
		return r
	}
	chunks := min(runChunks, f.chunks-number*runChunks)
	r := &run{number: number, want: ^uint64(0) >> (64 - chunks)}
	if digests {
		r.digests = make([]protocol.Digest, chunks)
	}
	if f.runs == nil {
		f.runs = make(map[int64]*run)
	}
	f.runs[number] = r
	return r
}

// compared notes that a chunk was read back.
func (f *inFile) compared(r *run, offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.safe |= 1 << (offset / f.chunk % runChunks)
}

// wrote notes a chunk of a run and reports whether it was the last one of it.
func (f *inFile) wrote(r *run, offset int64) (complete, takenBack bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.written |= 1 << (offset / f.chunk % runChunks)
	if !f.takenBack {
		f.got += min(f.chunk, f.entry.Size-offset)
	}
	return r.written == r.want, f.takenBack
}

// finish forgets a run that is written and compared, and reports whether it was the file's last one.
func (f *inFile) finish(r *run) (complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.runs, r.number)
	if f.left--; f.left == 0 {
		return !f.takenBack
	}
	if f.done == nil {
		f.done = make([]uint64, (f.chunks+64*runChunks-1)/(64*runChunks))
	}
	f.done[r.number/64] |= 1 << (r.number % 64)
	return false
}

// forget takes the file back and returns how many bytes of it were there.
func (f *inFile) forget() (bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takenBack, f.runs = true, nil
	return f.got
}
