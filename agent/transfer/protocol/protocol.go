// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package protocol is what the two ends of a Transfer have to agree about, beyond the messages of agent/wire/v1: the
// limits that each holds and the other keeps within, the form of what goes over a connection for blocks, the digests
// that are compared, and the reasons for which either gives the other up. It knows neither end.
package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// ChunkSize is the length in bytes of the pieces that a sender cuts files into. A receiver takes any power of two
	// from MinChunkSize to MaxChunkSize.
	ChunkSize = 1 << 20
	// MinChunkSize is the shortest chunk that a receiver takes, in bytes.
	MinChunkSize = 64 << 10
	// MaxChunkSize is the longest chunk that a receiver takes, in bytes.
	MaxChunkSize = 4 << 20

	// MaxStreams is the most connections for blocks of a session.
	MaxStreams = 16

	// MaxEntries is the most entries of a manifest and files of a Retry.
	MaxEntries = 4096
	// MaxSegments is the most segments in a block.
	MaxSegments = 4096
	// MaxRanges is the most ranges of a Need.
	MaxRanges = 4096

	// WindowBytes bounds what the files that were announced and are not complete cost.
	WindowBytes = 64 << 20
	// EntryCost is what each of them costs at least. See Cost.
	EntryCost = 256

	// MaxChanged is how many files may change in an attempt before it ends at once.
	MaxChanged = 10_000

	// FirstRetried is the index of the first file of a Retry: no manifest has as many entries.
	FirstRetried = 1 << 62
)

// A sender asks for the digests of what is at the destination as it comes to need them, so that neither side holds more
// of them than the asks that are under way are for: 1 MiB.
const (
	// MaxAsks is how many may be under way.
	MaxAsks = 64
	// MaxAskParts is how many parts each is for at most.
	MaxAskParts = 1024
)

// VerdictPatience is how long a sender whose stream broke waits for the receiver to say why, and a receiver for its
// last word to be taken. Only who waits for a side that is not there waits so long.
const VerdictPatience = 20 * time.Second

// Cost is what an announced file counts for against WindowBytes.
func Cost(e *tree.Entry) int64 { return EntryCost + int64(e.Weight()) }

// Invalid returns the error for what the other side may not say.
func Invalid(format string, args ...any) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, format, args...)
}

// Lost turns an error of a connection to the other side into one with a reason. That a context ended stays what it is:
// who ended it knows the reason.
func Lost(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return failure.New(
		wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the other side was lost: %w", err,
	)
}
