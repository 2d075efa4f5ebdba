// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"sync"
	"time"
)

const (
	// maxBatches is how many atomic batches the clients of one member may have open. A stream has space for 50,
	// of which the channels that end here and the archive's restorer need some, and members have three of these.
	maxBatches = 12
	// maxOwnBatches is how many of these one connection may have open, so that one client does not take all of them by
	// mistake. One that means to has several connections: those of an application have often one token, so that there
	// is nothing to tell clients by.
	maxOwnBatches = 4
	// maxBatchBytes bounds what is in these, in bytes as they were put: the server keeps it until they are
	// committed, with several members in memory.
	maxBatchBytes = 16 << 20
	// batchLife is how long the server keeps one open of which no more is said, and longestBatch how long clients may
	// go on to say something of one.
	batchLife    = 10 * time.Second
	longestBatch = time.Minute
	// longestBatchID is what the server takes.
	longestBatchID = 64

	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

// batches are the atomic batches of clients that are open, by id. They are safe for concurrent use.
type batches struct {
	mu    sync.Mutex
	open  map[string]*openBatch
	bytes int
	clock func() time.Time // time.Now unless a test sets it
}

func (b *batches) now() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	return time.Now()
}

// openBatch is one that the server may have open until a time, if nothing more comes. owner began it.
type openBatch struct {
	owner        *conn
	begun, until time.Time
	bytes        int
}

// refuses says why a message of a connection may not be put, if it is one of a batch for which there is no space.
func (b *batches) refuses(op *operation, owner *conn) string {
	id := batchID(op.header)
	if len(id) == 0 || len(id) > longestBatchID {
		return "" // the server refuses those that are too long
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.expire(now)
	open := b.open[string(id)]
	switch {
	case open == nil && !begins(op.header):
		return "" // the server knows none of which it could be part
	case open == nil && b.of(owner) >= maxOwnBatches:
		return tooManyOwnBatches
	case open == nil && len(b.open) >= maxBatches:
		return tooManyBatches
	case open != nil && now.Sub(open.begun) > longestBatch:
		// It may have been closed by the server long ago. As nothing more of it is passed on, it is so soon.
		return tooSlowBatch
	case b.bytes+len(op.header)+len(op.payload) > maxBatchBytes:
		return tooLongBatches
	default:
		return ""
	}
}

// of returns how many a connection began. mu is held.
func (b *batches) of(owner *conn) (n int) {
	for _, open := range b.open {
		if open.owner == owner {
			n++
		}
	}
	return n
}

// note counts a message of a connection that is passed on, if it is one of a batch.
func (b *batches) note(op *operation, owner *conn) {
	id := batchID(op.header)
	if len(id) == 0 || len(id) > longestBatchID {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, open := b.now(), b.open[string(id)]
	if hasHeader(op.header, batchCommitHeader) {
		if open != nil {
			b.bytes -= open.bytes
			delete(b.open, string(id))
		}
		return
	}
	if open == nil {
		if !begins(op.header) {
			return
		}
		if b.open == nil {
			b.open = make(map[string]*openBatch)
		}
		open = &openBatch{owner: owner, begun: now}
		b.open[string(id)] = open
	}
	open.until = now.Add(batchLife)
	open.bytes += len(op.header) + len(op.payload)
	b.bytes += len(op.header) + len(op.payload)
}

// expire forgets those that the server has given up. mu is held.
func (b *batches) expire(now time.Time) {
	for id, open := range b.open {
		if now.After(open.until) {
			b.bytes -= open.bytes
			delete(b.open, id)
		}
	}
}

// begins reports whether a message is the first of its batch.
func begins(header []byte) bool {
	value, ok := headerValue(header, batchSequenceHeader)
	return ok && bytes.Equal(bytes.TrimLeft(value, "0"), []byte("1"))
}
