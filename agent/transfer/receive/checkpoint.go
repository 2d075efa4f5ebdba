// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// maxNotes bounds the chunks that are at stake.
const maxNotes = 1 << 14

// note is a chunk that was written and is not safe yet.
type note struct {
	file   *inFile
	chunk  int64
	digest protocol.Digest
}

// checkpoints makes safe what the streams write: it syncs it and records it in the journal. What is at stake, written
// and not safe, is never more than an interval for each stream; a stream waits before it exceeds that. A checkpoint
// begins at half of it, so that on most disks nobody waits.
type checkpoints struct {
	ctx         context.Context
	cancel      context.CancelFunc
	fail        func(error) // ends the attempt
	destination Destination
	header      journal.Header
	form        cargo.Form // in which files rest; 0: as they are
	verify      bool
	touch       func() // notes that the sender is not silent
	// limit is how many bytes may be at stake now.
	limit func() int64

	mu    sync.Mutex
	space sync.Cond // of mu: something became safe
	wake  chan struct{}
	ended chan struct{} // closed by the goroutine that makes checkpoints
	// What is at stake: notes of files without a name, and of all files the bytes that are being written, that were
	// written, and that a checkpoint under way makes safe.
	notes   []note
	writing int64
	bytes   int64
	syncing int64
	// named: files were given their names or up; numbers of those that may be in the journal.
	named   bool
	numbers []uint64

	resent atomic.Int64 // bytes that earlier attempts wrote and that come again

	journalMu sync.Mutex
	journal   *journal.Journal // nil until there is something to record
	base      uint64           // the first number that no earlier attempt has used
}

// newCheckpoints takes over what earlier attempts made safe.
func newCheckpoints(
	ctx context.Context, d Destination, h journal.Header, t *terms, limit func() int64, fail func(error),
) (*checkpoints, error) {
	c := &checkpoints{
		destination: d, header: h, form: t.form, verify: t.verify, limit: limit, fail: fail, base: 1,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.ctx = ctx
	c.space.L = &c.mu
	if at := d.Staging(); at != nil {
		j, err := journal.Open(at, h)
		switch {
		case err == nil:
			c.journal = j
		case errors.Is(err, fs.ErrNotExist) || journal.Untrusted(err):
		default:
			return nil, err
		}
	}
	if err := c.sift(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.space.Broadcast()
	})
	go c.run()
	return c, nil
}

// sift brings together the journal and the staged files: what is not in both is of no use.
func (c *checkpoints) sift() error {
	if j := c.journal; j != nil {
		var gone []uint64
		var failed error
		j.Numbers(func(n uint64) {
			c.base = max(c.base, n+numbers(c.form))
			_, exists, err := c.destination.Staged(n)
			if err != nil {
				failed = err
			}
			if !exists {
				gone = append(gone, n)
			}
		})
		if failed != nil {
			return failed
		}
		for _, n := range gone {
			if err := j.Done(n); err != nil {
				return err
			}
		}
	}
	cleared, err := c.destination.Clear(c.keeps)
	c.resent.Store(cleared)
	return err
}

// keeps reports whether a staged file is of one that the journal knows.
func (c *checkpoints) keeps(n uint64) bool {
	j := c.journal
	return j != nil && (j.Has(n) || c.form != 0 && n >= blocksNumber && j.Has(n-blocksNumber))
}

// run makes checkpoints until the attempt ends.
func (c *checkpoints) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
			if err := c.checkpoint(); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

// staking waits until n bytes may be written and has them written, noted or in a file that has its name. From then on
// they are at stake.
func (c *checkpoints) staking(n int64, write func() error) error {
	if err := c.reserve(n); err != nil {
		return err
	}
	defer c.count(n)
	return write()
}

// reserve waits until n bytes may be written.
func (c *checkpoints) reserve(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.ctx.Err(); err != nil {
			return context.Cause(c.ctx)
		}
		limit, atStake := c.limit(), c.writing+c.bytes+c.syncing
		full := atStake > 0 && atStake+n > limit || len(c.notes) >= maxNotes
		// Holes are chunks without bytes.
		if c.bytes > 0 && (full || atStake+n > limit/2) || len(c.notes) >= maxNotes {
			select {
			case c.wake <- struct{}{}:
			default:
			}
		}
		if !full {
			c.writing += n
			return nil
		}
		c.space.Wait()
	}
}

// count takes n bytes that were reserved for written.
func (c *checkpoints) count(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing -= n
	c.bytes += n
	c.space.Broadcast()
}

// wrote notes a chunk that was written.
func (c *checkpoints) wrote(f *inFile, chunk int64, digest protocol.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, note{f, chunk, digest})
}

// name gives a file its name that is all there.
func (c *checkpoints) name(staged StagedFile, f *inFile) error {
	if f.rest != nil {
		return c.rest(staged, f)
	}
	return c.commit(f, func() error { return staged.Commit(&f.entry) })
}

// commit gives a file its name by name.
func (c *checkpoints) commit(f *inFile, name func() error) error {
	f.naming.Lock()
	defer f.naming.Unlock()
	if err := name(); err != nil {
		return err
	}
	f.named = true
	c.done(f)
	return nil
}

// discard gives a file up.
func (c *checkpoints) discard(f *inFile) error {
	f.naming.Lock()
	defer f.naming.Unlock()
	f.named = true
	c.done(f)
	return c.unstage(f)
}

// unstage removes what is staged of a file.
func (c *checkpoints) unstage(f *inFile) error {
	err := c.destination.Discard(f.number)
	if f.rest != nil {
		err = errors.Join(err, c.destination.Unstage(f.number+blocksNumber))
	}
	return err
}

// done notes that a file was given its name, or up.
func (c *checkpoints) done(f *inFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = true
	if f.chunks > 1 {
		c.numbers = append(c.numbers, f.number)
	}
}

// checkpoint makes safe what is at stake.
func (c *checkpoints) checkpoint() error {
	c.mu.Lock()
	notes, numbers, named := c.notes, c.numbers, c.named
	c.notes, c.numbers, c.named = nil, nil, false
	c.bytes, c.syncing = 0, c.bytes
	c.mu.Unlock()
	err := c.makeSafe(notes, numbers, named)
	c.mu.Lock()
	c.syncing = 0
	c.space.Broadcast()
	c.mu.Unlock()
	return err
}

func (c *checkpoints) makeSafe(notes []note, numbers []uint64, named bool) error {
	slices.SortStableFunc(notes, func(a, b note) int {
		switch {
		case a.file.number < b.file.number || a.file.number == b.file.number && a.chunk < b.chunk:
			return -1
		case a.file.number == b.file.number && a.chunk == b.chunk:
			return 0
		default:
			return 1
		}
	})
	var safe []note
	for len(notes) > 0 {
		n := 1
		for n < len(notes) && notes[n].file == notes[0].file {
			n++
		}
		unfinished, err := c.syncFile(notes[0].file)
		if err != nil {
			return err
		}
		if unfinished {
			safe = append(safe, notes[:n]...)
		}
		notes = notes[n:]
	}
	if named {
		// The names must be safe before the journal says that they were given.
		if err := c.destination.Sync(); err != nil {
			return err
		}
	}
	return c.record(safe, numbers)
}

// syncFile syncs a staged file. It returns false if the file is not staged any more.
func (c *checkpoints) syncFile(f *inFile) (unfinished bool, err error) {
	f.naming.Lock()
	defer f.naming.Unlock()
	if f.named {
		return false, nil
	}
	for _, number := range f.staged() {
		staged, err := c.destination.Stage(number, &f.entry)
		if err != nil {
			return false, err
		}
		err = staged.Sync()
		_ = staged.Close()
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// record writes into the journal what is safe and what is finished.
func (c *checkpoints) record(safe []note, numbers []uint64) error {
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal == nil {
		at := c.destination.Staging()
		if len(safe) == 0 || at == nil {
			return nil
		}
		j, err := journal.Create(at, c.header)
		if err != nil {
			return err
		}
		c.journal = j
	}
	for len(safe) > 0 {
		n, digests := 0, make([]protocol.Digest, 0, 64)
		for n < len(safe) && safe[n].file == safe[0].file && safe[n].chunk == safe[0].chunk+int64(n) {
			digests = append(digests, safe[n].digest)
			n++
		}
		// What the journal has no space for is not safe, and nothing is lost by that but time.
		if _, err := c.journal.Add(safe[0].file.recorded(), safe[0].chunk, digests); err != nil {
			return err
		}
		safe = safe[n:]
	}
	for _, n := range numbers {
		if err := c.journal.Done(n); err != nil {
			return err
		}
	}
	return c.journal.Sync()
}

// leave makes safe what was written, as far as that is possible, for an attempt that follows, and removes what is of no
// use to it. Nothing is written any more.
func (c *checkpoints) leave(trusted bool) {
	<-c.ended
	if trusted {
		_ = c.checkpoint() // It is the next attempt that loses by an error.
	}
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if j := c.journal; j != nil && (!trusted || j.Len() == 0) {
		if j.Remove() != nil {
			return
		}
		c.journal = nil
	}
	// An error may mean that a newer attempt has the staged files.
	_, _ = c.destination.Clear(c.keeps)
	_ = c.close()
}

// stop ends checkpoints when everything has its name.
func (c *checkpoints) stop() error {
	c.cancel()
	<-c.ended
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	return c.close()
}

func (c *checkpoints) resentBytes() uint64 { return uint64(c.resent.Load()) }

// close closes the journal.
func (c *checkpoints) close() error {
	c.cancel()
	if c.journal == nil {
		return nil
	}
	err := c.journal.Close()
	c.journal = nil
	return err
}
