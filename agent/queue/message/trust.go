// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import "sync/atomic"

const (
	// After trustAfter messages in a row that were worth compressing, one in lookEvery is
	// looked at before it is compressed: in a short one that takes a twelfth of the time
	// which compressing takes, and messages of a queue are alike.
	trustAfter = 32
	lookEvery  = 16
	// trustBytes is the length from which on messages are always looked at, because much
	// would be compressed in vain.
	trustBytes = 64 << 10
	// trustMost keeps the count from overflowing. It is a multiple of lookEvery.
	trustMost = 1 << 20

	// worthShare: a message was worth it that became shorter by one byte in so many, as in
	// package estimate.
	worthShare = 32
)

// trust counts how many messages in a row were worth compressing. It is safe for
// concurrent use; what is counted at the same moment may be lost, which costs a look.
type trust struct {
	row atomic.Int32
}

// looks reports whether a message of a length has to be looked at.
func (t *trust) looks(length int) bool {
	row := t.row.Load()
	return row < trustAfter || row%lookEvery == 0 || length >= trustBytes
}

// seen counts what became of a message: from a length to another, the same when it was
// not compressed.
func (t *trust) seen(before, after int) {
	if before-after < before/worthShare {
		t.row.Store(0)
		return
	}
	if row := t.row.Load(); row >= trustMost {
		t.row.Store(trustMost - lookEvery + 1)
	} else {
		t.row.Store(row + 1)
	}
}
