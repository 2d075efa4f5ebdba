// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"context"
	"errors"
	"sync"

	"github.com/lighterage/lighterage/agent/frame"
)

// RecordChain finds the records of one file whose blocks several goroutines read. Where records begin in a block the
// blocks before it tell, so each goroutine takes its turn. Whoever deals the blocks out must do so in their order, and
// nobody may wait for a later block while having an earlier one: then turns come.
type RecordChain struct {
	size int64

	mu    sync.Mutex
	split splitter // used by the goroutine whose turn it is
	next  int64    // offset of the block whose turn it is
	begun bool     // split has seen the bytes from where a record began up to next
	// lost: where records begin is not known from here on.
	lost  bool
	moved chan struct{} // closed when next or lost change; nil while nobody waits for that
}

// mostBefore is how many bytes Mark reads before the first block, at most: who waits for that block may take a long
// silence for the end.
const mostBefore = 1 << 30

// NewRecordChain returns a chain for the blocks of a plain file of size bytes that begin at from or behind it. A record
// begins at latest, which is from or an offset before it, such as Tally.LatestRecord returns. If that is more than
// 1 GiB before, nothing is known of the file, unless its records have one length.
func NewRecordChain(records Records, size, from, latest int64) *RecordChain {
	return &RecordChain{
		size: size, next: from, split: splitter{records: records, at: latest}, begun: latest == from,
		lost: !records.divide(size) || records.Layout != Fixed && from-latest > mostBefore,
	}
}

// readAhead is how many bytes Mark reads at once of what is before the first block, up to a multiple of them: a block,
// where these are of the default length.
const readAhead = frame.DefaultBlock

// MarkUnread is Mark for who has not read the block, of so many bytes. known is false if Mark is to be called with
// these. Of a nil chain nothing is known, and need not be.
func (c *RecordChain) MarkUnread(offset, length int64) (m Mark, known bool) {
	if c == nil {
		return Mark{}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch records := c.split.records; {
	case c.lost:
		return Mark{}, true
	case records.Layout == Fixed:
		return records.fixed(offset, length), true
	default:
		return Mark{}, false
	}
}

// Mark waits for the turn of the block at an offset and returns what an index is to have of its records: the zero value
// if that is not known, because the file does not consist of such records, or the chain was stopped. read returns bytes
// of the plain file at an offset, which are needed once, before the first block. The errors are the context's and
// read's, after which nothing is known.
func (c *RecordChain) Mark(
	ctx context.Context, offset int64, plain []byte, read func(p []byte, offset int64) error,
) (Mark, error) {
	if m, known := c.MarkUnread(offset, int64(len(plain))); known {
		return m, nil
	}
	if known, err := c.await(ctx, offset); !known || err != nil {
		return Mark{}, err
	}
	err := c.begin(ctx, read)
	var m Mark
	if err == nil {
		m, err = c.split.mark(plain)
	}
	if err == nil && offset+int64(len(plain)) >= c.size {
		err = c.split.finish()
	}
	if err != nil {
		c.Stop()
		if errors.Is(err, ErrRecords) {
			err = nil // The file is what it is.
		}
		return Mark{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next += int64(len(plain))
	c.advance()
	if c.lost {
		return Mark{}, nil
	}
	return m, nil
}

// Stop says that nobody needs to know about further blocks. A nil chain has nothing to stop.
func (c *RecordChain) Stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	c.advance()
}

// await waits for the turn of a block. It returns false if nothing is known of it.
func (c *RecordChain) await(ctx context.Context, offset int64) (known bool, err error) {
	for {
		c.mu.Lock()
		lost, next := c.lost, c.next
		if !lost && next < offset && c.moved == nil {
			c.moved = make(chan struct{})
		}
		moved := c.moved
		c.mu.Unlock()
		if lost || next >= offset {
			return !lost && next == offset, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// begin reads from where a record began up to the first block.
func (c *RecordChain) begin(ctx context.Context, read func(p []byte, offset int64) error) error {
	if c.begun {
		return nil
	}
	c.begun = true
	buf := make([]byte, min(readAhead, c.next-c.split.at))
	for c.split.at < c.next {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		some := buf[:min(readAhead-c.split.at%readAhead, c.next-c.split.at)]
		if err := read(some, c.split.at); err != nil {
			return err
		}
		if _, err := c.split.mark(some); err != nil {
			return err
		}
	}
	return nil
}

// advance lets those go on who wait. mu is held.
func (c *RecordChain) advance() {
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
}
