// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package channel moves messages from the stream of one queue to that of another, each exactly once and in order, over
// connections that may break and between ends that may be killed at any moment.
//
// The position, which is the sequence in the sending stream of the last message that is stored, is kept in the
// receiving stream: a batch is one atomic publish of its messages and of a marker that says the position, so there is
// no moment at which one is there without the other. The marker of a sender takes the place of its predecessor, and is
// taken only if that is the one which the receiver knows: of two receivers that work for one sender at the same time,
// one fails. The sender removes what the receiver says it has, and after a break begins with the oldest message it
// still holds; what the receiver has already, it skips. A message that no receiver could take becomes a dead letter of
// the sending queue, so that it holds up no others.
//
// A message that refers to a dictionary of the sending queue travels as it rests, after the dictionary, where the other
// end takes dictionaries. That keeps them in memory for as long as the channel lasts, and stores the message in the form
// that its own queue gives to what is put.
package channel

import (
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// MaxBatchMessages bounds the messages of a batch. A marker goes with them into an atomic batch of JetStream, see
	// store.MaxAtomicBatch.
	MaxBatchMessages = 2000
	// usualBatchMessages are as many as servers take that have JetStream's own limit of 1000: external ones, and members
	// of an older release.
	usualBatchMessages = 900
	// DefaultBatchMessages is how many a batch has at most if nothing else is said.
	DefaultBatchMessages = 500
	// maxBatchBytes bounds a batch as it is encoded, unless it has one message only.
	maxBatchBytes = 4 << 20
	// maxHeaderBytes bounds the headers of a message, maxSuffix what follows the queue's name in its subject.
	maxHeaderBytes = envelope.MaxFieldBytes
	maxSuffix      = envelope.MaxSuffix
	// maxEpoch bounds the name of a stream's life.
	maxEpoch = 64
	// maxCodecs bounds a sender's list.
	maxCodecs = 16
	// answerTimeout is how long JetStream may take to answer.
	answerTimeout = 30 * time.Second
)

// FrameBound returns the length in bytes of the longest message of the protocol between two queues whose plain payloads
// have at most so many bytes.
func FrameBound(maxMessage int) int {
	return max(maxBatchBytes, maxMessage) + maxHeaderBytes + maxSuffix + 64<<10
}

func invalid(format string, args ...any) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, format, args...)
}
