// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jetstreamerror tells what JetStream has against a request by the codes of its errors,
// which it never gives another meaning.
package jetstreamerror

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Codes that package jetstream has no names for.
const (
	AccountResources      jetstream.ErrorCode = 10002
	NoPeers               jetstream.ErrorCode = 10005
	InsufficientResources jetstream.ErrorCode = 10023
	MaximumStreams        jetstream.ErrorCode = 10027
	MemoryExceeded        jetstream.ErrorCode = 10028
	StorageExceeded       jetstream.ErrorCode = 10047
	MessageTooLarge       jetstream.ErrorCode = 10054
	NameInUse             jetstream.ErrorCode = 10058
	SubjectOverlap        jetstream.ErrorCode = 10065
	Replicas              jetstream.ErrorCode = 10074
	StoreFailed           jetstream.ErrorCode = 10077
	MultipleUnfiltered    jetstream.ErrorCode = 10099
	ConsumerNotUnique     jetstream.ErrorCode = 10100
	// WrongLastConstant is said when it cannot tell the last sequence.
	WrongLastConstant jetstream.ErrorCode = 10164
	BatchTooLarge     jetstream.ErrorCode = 10199
	TooManyBatches    jetstream.ErrorCode = 10210
)

// Is reports whether an error is a refusal of JetStream with one of the codes.
func Is(err error, codes ...jetstream.ErrorCode) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && slices.Contains(codes, refused.ErrorCode)
}

// Full reports whether a limit, or the volume, had no space for a message.
func Full(err error) bool {
	return Is(err, StoreFailed, InsufficientResources, AccountResources, MemoryExceeded, StorageExceeded)
}

// Overtaken reports whether the stream has changed since the sequence that a message named.
func Overtaken(err error) bool {
	return Is(err, jetstream.JSErrCodeStreamWrongLastSequence, WrongLastConstant)
}

// OtherConsumer reports whether a message would go to two consumers of a queue.
func OtherConsumer(err error) bool { return Is(err, MultipleUnfiltered, ConsumerNotUnique) }
