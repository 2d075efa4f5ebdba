// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// A file that rests in a form has more staged files than one, whose numbers follow its own: what an index has of its
// blocks, as far as they came, and the index, when all did. The journal has digests of the former in the place of those
// of chunks. All of them are written in the order of chunks.
const (
	restingNumbers = 4 // for each file
	blocksNumber   = 1
	indexNumber    = 2
)

// numbers is how many numbers of staged files a file takes.
func numbers(form cargo.Form) uint64 {
	if form == 0 {
		return 1
	}
	return restingNumbers
}

// checkResting is tree.CheckResting, and whether an index has space for the blocks of a file.
func checkResting(form cargo.Form, e *tree.Entry, chunk int64) error {
	if e.Type == tree.File && (e.Size-1)/chunk >= cargo.MaxBlocks {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"%q has more than %d blocks of %d bytes, which is the most that a file of form %v has: split it, add it to "+
				"spec.exclude, or make a Transfer without spec.destination.form",
			failure.Shorten(e.Path, failure.MaxMessage/2), cargo.MaxBlocks, chunk, form)
	}
	return tree.CheckResting(form, e)
}

// resting is how far a file is that rests in a form. Who writes the next chunk has tally and last alone.
type resting struct {
	form    cargo.Form
	records cargo.Records
	resumed bool // some of it is of an earlier attempt
	tally   cargo.Tally
	last    []byte // what an index is made of, of the last block

	// next is the chunk that comes next. moved is closed when there is another one; nil while nobody waits for that.
	// They are guarded by the file's mu.
	next  int64
	moved chan struct{}
}

func newResting(t *terms) *resting {
	return &resting{form: t.form, records: t.records, tally: *cargo.NewRecordTally(t.form, t.records)}
}

// staged are the numbers of what must be safe of a file for its chunks to be.
func (f *inFile) staged() []uint64 {
	if f.rest == nil {
		return []uint64{f.number}
	}
	return []uint64{f.number, f.number + blocksNumber}
}

// advance lets those go on who wait for the next chunk, or for the file to be taken back. mu is held.
func (r *resting) advance() {
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
}

// await waits until a chunk is the next one. It returns false for a file that was taken back. A sender that deals
// chunks out in their order, and to connections that each keep it, never has two of these wait for each other; whoever
// does otherwise waits in vain.
func (f *inFile) await(ctx context.Context, number int64, patience time.Duration) (ok bool, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		f.mu.Lock()
		taken, next := f.takenBack, f.rest.next
		if f.rest.moved == nil && next != number {
			f.rest.moved = make(chan struct{})
		}
		moved := f.rest.moved
		f.mu.Unlock()
		if taken || next == number {
			return !taken, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-timer.C:
			return false, protocol.Invalid("chunk %d of %q came, and chunk %d did not within %v: they come in their order",
				number, f.entry.Path, next, patience)
		}
	}
}

// kept says that the chunk whose turn it was is written.
func (f *inFile) kept() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rest.next++
	f.rest.advance()
}

// keep takes a block as it came, of a session whose files rest in a form.
func (d *stream) keep(h frame.Header, payload []byte) error {
	if len(d.claims) > 1 || len(d.claims) == 1 && d.claims[0].carried != d.claims[0].length {
		return protocol.Invalid("a block of %d segments, or of parts: the session has one whole chunk in each", len(d.claims))
	}
	if h.PlainLen == 0 {
		return nil // The last one, or one whose checksums nobody needs.
	}
	d.report.arrived(h)
	c := &d.claims[0]
	if c.file == nil {
		return nil
	}
	rest, b, err := d.packer.Pack(h, payload)
	if err != nil {
		return protocol.Invalid("chunk at offset %d of %q: %w", c.offset, c.file.entry.Path, err)
	}
	came := time.Now()
	ok, err := c.file.await(d.ctx, c.offset/d.terms.chunk, d.patience)
	d.waited += time.Since(came)
	if !ok {
		return err
	}
	if err := d.checkpoints.staking(c.written, func() error { return d.writer.keep(c, rest, b) }); err != nil {
		return err
	}
	c.file.kept()
	return nil
}

// keep writes what rests of a chunk, whose turn it is, and gives the file its name if that was the last one.
func (w *writer) keep(c *claim, rest []byte, b cargo.Block) error {
	f := c.file
	staged, err := w.destination.Stage(f.number, &f.entry)
	if err != nil {
		return err
	}
	defer staged.Close()
	at := f.rest.tally.Next()
	spent := meter.ThreadCPU(func() { err = f.writeRest(w.destination, staged, rest, b, c.segment.Mark) })
	w.report.writing.Add(int64(spent))
	if err != nil {
		return err
	}
	if w.terms.verify {
		w.buffer = slices.Grow(w.buffer[:0], len(rest))[:len(rest)]
		if _, err := staged.ReadAt(w.buffer, at); err != nil {
			return fmt.Errorf("read back %q: %w", f.entry.Path, err)
		}
		if !b.Holds(w.buffer) {
			return notAsWritten(f)
		}
	}
	// Of what the journal is to have, for nobody sees the plain chunk here.
	c.segment.Digest = protocol.DigestOf(f.rest.last)
	return w.wrote(staged, c)
}

// writeRest writes what rests of the next chunk, and what the index will have of it.
func (f *inFile) writeRest(d Destination, staged StagedFile, rest []byte, b cargo.Block, m cargo.Mark) error {
	r := f.rest
	number, at := r.tally.Blocks(), r.tally.Next()
	if err := r.tally.AddMarked(b, m); err != nil {
		return protocol.Invalid("%q: %w", f.entry.Path, err)
	}
	if number == 0 {
		if err := r.begin(staged); err != nil {
			return err
		}
	}
	if _, err := staged.WriteAt(rest, at); err != nil {
		return err
	}
	r.last = r.tally.Append(r.last[:0], b, m)
	if f.chunks > 1 {
		blocks, err := d.Stage(f.number+blocksNumber, &f.entry)
		if err != nil {
			return err
		}
		defer blocks.Close()
		if _, err := blocks.WriteAt(r.last, int64(number)*int64(len(r.last))); err != nil {
			return err
		}
	}
	return nil
}

func (r *resting) begin(staged io.WriterAt) error {
	if begin := r.tally.Begin(); len(begin) > 0 {
		_, err := staged.WriteAt(begin, 0)
		return err
	}
	return nil
}

// rest gives a file that is all there, in its form, its name, and one to its index. The index gets it first: a file
// without one could not be told from another of its name, an index without its file is of no file's length. Blocks stay
// staged until both have theirs, so that whatever ends the receiver in between costs no more than elsewhere.
func (c *checkpoints) rest(staged StagedFile, f *inFile) error {
	r, d := f.rest, c.destination
	if r.tally.Blocks() == 0 {
		if err := r.begin(staged); err != nil {
			return err
		}
	}
	if _, err := staged.WriteAt(r.tally.End(), r.tally.Next()); err != nil {
		return err
	}
	if err := staged.Truncate(r.tally.Size()); err != nil {
		return err
	}
	index, err := d.Stage(f.number+indexNumber, &f.entry)
	if err != nil {
		return err
	}
	defer index.Close()
	size, err := c.writeIndex(staged, index, f)
	if err != nil {
		return err
	}
	if f.chunks > 1 {
		for _, s := range []StagedFile{staged, index} {
			if err := s.Sync(); err != nil {
				return err
			}
		}
	}
	if r.records.Layout != cargo.NoRecords && !r.tally.KnowsRecords() {
		d.Omissions().Add(tree.OmittedRecords, f.entry.Path)
	}
	err = c.commit(f, func() error {
		e := tree.RestingIndex(r.form, &f.entry, size)
		if err := index.Commit(&e); err != nil {
			return err
		}
		e = tree.Resting(r.form, &f.entry, r.tally.Size())
		return staged.Commit(&e)
	})
	if err == nil && f.chunks > 1 {
		err = d.Unstage(f.number + blocksNumber)
	}
	return err
}

// writeIndex writes the index of a file, and if some of the file is of an earlier attempt compares all of it: who wrote
// that may have been slow to end.
func (c *checkpoints) writeIndex(staged, index StagedFile, f *inFile) (size int64, err error) {
	r := f.rest
	if f.chunks <= 1 {
		return r.tally.WriteIndex(index, bytes.NewReader(r.last))
	}
	blocks, err := c.destination.Stage(f.number+blocksNumber, &f.entry)
	if err != nil {
		return 0, err
	}
	defer blocks.Close()
	if r.resumed && c.verify {
		back := readBack{file: f, staged: staged, blocks: blocks, verify: true, alive: c.alive}
		switch same, err := back.run(f.chunks); {
		case err != nil:
			return 0, err
		case !same:
			return 0, notAsWritten(f)
		}
	}
	return r.tally.WriteIndex(index, blocks)
}

func notAsWritten(f *inFile) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
		"what was read back of %q is not what was written: suspect the memory or the file system of the receiving node, "+
			"or a fault of Lighterage (%s)", f.entry.Path, wirev1.Version)
}

// alive notes that the sender is not silent, and says whether the attempt has ended.
func (c *checkpoints) alive() error {
	if c.touch != nil {
		c.touch() // It may take long.
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// readBack compares the first blocks of a file that rests with what was noted of them.
type readBack struct {
	file           *inFile
	staged, blocks io.ReaderAt
	// digests returns those of the journal from a block on; nil: they are not compared.
	digests func(from int64) (first int64, digests []protocol.Digest, err error)
	// verify: what rests is read, and not only looked for.
	verify bool
	alive  func() error

	tally *cargo.Tally // of what was compared
	known []protocol.Digest
	noted []byte // of a block
	buf   []byte
}

// run compares so many blocks. What cannot be read is not the same.
func (b *readBack) run(count int64) (same bool, err error) {
	b.tally = cargo.NewRecordTally(b.file.rest.form, b.file.rest.records)
	begin := b.tally.Begin()
	if got := make([]byte, len(begin)); len(begin) > 0 {
		if _, err := b.staged.ReadAt(got, 0); err != nil || !bytes.Equal(got, begin) {
			return false, nil //nolint:nilerr // What cannot be read is not the same.
		}
	}
	for i := range count {
		if err := b.alive(); err != nil {
			return false, err
		}
		if same, err := b.block(i); !same || err != nil {
			return false, err
		}
	}
	if last := b.tally.Next() - 1; !b.verify && last >= 0 {
		if _, err := b.staged.ReadAt(make([]byte, 1), last); err != nil {
			return false, nil //nolint:nilerr // What cannot be read is not the same.
		}
	}
	return true, nil
}

func (b *readBack) block(i int64) (same bool, err error) {
	f := b.file
	b.noted = slices.Grow(b.noted[:0], b.tally.EntrySize())[:b.tally.EntrySize()]
	if _, err := b.blocks.ReadAt(b.noted, i*int64(len(b.noted))); err != nil {
		return false, nil //nolint:nilerr // What cannot be read is not the same.
	}
	if b.digests != nil {
		if len(b.known) == 0 {
			var first int64
			if first, b.known, err = b.digests(i); err != nil || len(b.known) == 0 || first != i {
				return false, err
			}
		}
		if protocol.DigestOf(b.noted) != b.known[0] {
			return false, nil
		}
		b.known = b.known[1:]
	}
	block, mark, err := b.tally.ParseEntry(b.noted)
	if err != nil || block.Plain() != min(f.chunk, f.entry.Size-i*f.chunk) {
		return false, nil //nolint:nilerr // What is no block is not the same.
	}
	if b.verify {
		b.buf = slices.Grow(b.buf[:0], int(block.Stored()))[:block.Stored()]
		if _, err := b.staged.ReadAt(b.buf, b.tally.Next()); err != nil || !block.Holds(b.buf) {
			return false, nil //nolint:nilerr // What cannot be read is not the same.
		}
	}
	return b.tally.AddMarked(block, mark) == nil, nil
}

// restingProven is proven and reaches for a file that rests in a form, whose chunks are safe up to one of them. What is
// behind them is truncated.
func (r *resumer) restingProven(f *inFile, ranges []journal.Range) (bool, error) {
	c := r.checkpoints
	if len(ranges) != 1 || ranges[0].First != 0 {
		return false, nil
	}
	if _, exists, err := r.destination.Staged(f.number + blocksNumber); err != nil || !exists {
		return false, err
	}
	staged, err := r.destination.Stage(f.number, &f.entry)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	blocks, err := r.destination.Stage(f.number+blocksNumber, &f.entry)
	if err != nil {
		return false, err
	}
	defer blocks.Close()
	back := readBack{
		file: f, staged: staged, blocks: blocks, verify: r.terms.verify, alive: c.alive,
		digests: func(from int64) (int64, []protocol.Digest, error) {
			c.journalMu.Lock()
			defer c.journalMu.Unlock()
			return c.journal.Digests(f.number, from)
		},
	}
	same, err := back.run(ranges[0].Count)
	if !same || err != nil {
		return false, err
	}
	f.rest.tally, f.rest.next, f.rest.resumed = *back.tally, ranges[0].Count, true
	return true, staged.Truncate(back.tally.Next())
}
