// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

const (
	// maxBatchBytes bounds the atomic batches that the clients of one member have open, in bytes as they were put: the
	// server keeps them until they are committed, with several members in memory. Each counts as minBatchBytes at
	// least, so that clients leave most of the batches that package store allows a stream to channels and restores.
	maxBatchBytes = 16 << 20
	minBatchBytes = 1 << 20
	// batchLife is how long the server keeps one open of which no more is said, and longestBatch how long clients may
	// go on to say something of one.
	batchLife    = 10 * time.Second
	longestBatch = time.Minute
	// longestBatchID is what the server takes.
	longestBatchID = 64

	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

var (
	// tooManyBatches and longBatch say why a message of a batch is rejected.
	tooManyBatches = fmt.Sprintf("the atomic batches that clients of this member have open take %d bytes, at least %d "+
		"each, which is the limit: commit them, use shorter batches, or put the batch again later",
		maxBatchBytes, minBatchBytes)
	longBatch = fmt.Sprintf("the atomic batch was begun more than %v ago, which is the limit: use shorter batches, or "+
		"put it again later, with another id", longestBatch)
)

// batches are the atomic batches of clients that are open, by id. They are safe for concurrent use.
type batches struct {
	mu   sync.Mutex
	open map[string]*openBatch
}

// openBatch is one that the server may have open until a time, if nothing more comes.
type openBatch struct {
	begun, until time.Time
	bytes        int
}

// admit counts a message with so many bytes if it is part of a batch, or says why it may not be put.
func (b *batches) admit(header []byte, size int) string {
	id := exactHeader(header, batchField)
	if len(id) == 0 || len(id) > longestBatchID {
		return "" // the server rejects those that are too long
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, others := time.Now(), 0
	one := b.open[string(id)]
	for name, batch := range b.open {
		if now.After(batch.until) {
			delete(b.open, name)
		} else if batch != one {
			others += max(batch.bytes, minBatchBytes)
		}
	}
	if one == nil || now.After(one.until) {
		sequence, _ := headerValue(header, batchSequenceHeader)
		if !bytes.Equal(bytes.TrimLeft(sequence, "0"), []byte("1")) {
			return "" // the server knows none of which it could be part
		}
		one = &openBatch{begun: now}
	}
	switch {
	case now.Sub(one.begun) > longestBatch:
		// It may have been closed by the server long ago. As nothing more of it is passed on, it is so soon.
		return longBatch
	case others+max(one.bytes+size, minBatchBytes) > maxBatchBytes:
		return tooManyBatches
	case hasHeader(header, batchCommitHeader):
		delete(b.open, string(id))
		return ""
	case b.open == nil:
		b.open = make(map[string]*openBatch)
	}
	b.open[string(id)] = one
	one.bytes, one.until = one.bytes+size, now.Add(batchLife)
	return ""
}
