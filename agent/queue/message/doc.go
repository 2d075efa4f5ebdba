// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message is the form in which a queue keeps messages: a payload that was
// compressed when the message was put, described by four headers, or the plain
// payload without them.
//
//	Lighterage-Codec: zstd
//	Lighterage-Engine: software
//	Lighterage-Length: 12000
//	Lighterage-Checksum: 0f1e2d3c4b5a6978
//
// Length is that of the plain payload in decimal, Checksum XXH3-64 of it in 16
// lower-case hexadecimal digits. A message is never longer in this form, headers
// included, than it was plain.
//
// A payload that refers to a dictionary of its queue is described by one header, which is shorter:
//
//	Lighterage-Codec: zstd;1000;AAEq-w8eLTxLWml4
//
// It has the codec, the length, and in base64 (RFC 4648, section 5, without padding) the number of the dictionary in 4
// bytes and the checksum in 8, the most significant first; not the class of the engine. Releases without dictionaries of
// the codec find such a header invalid, as they do any codec that they do not know. Only agents of the queue have its
// dictionaries: nothing else gets this form, or may put it.
//
// The checksum finds damage. It does not find forgery.
package message

import (
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// The names of the headers. NATS distinguishes case.
const (
	CodecHeader    = "Lighterage-Codec"
	EngineHeader   = "Lighterage-Engine"
	LengthHeader   = "Lighterage-Length"
	ChecksumHeader = "Lighterage-Checksum"
)

// MaxLength is the length in bytes of the longest plain payload that any queue may
// allow.
const MaxLength = 64 << 20

// The reasons of messages that are stored as they came, beside those of package policy.
const (
	// CompressionOff means: the least size that the queue compresses is 0, which turns
	// compression off.
	CompressionOff policy.Reason = "CompressionOff"
	// AlreadyEncoded means: the client put it in the form of this package, and it was
	// found to be sound.
	AlreadyEncoded policy.Reason = "AlreadyEncoded"
	// EngineFailed means: the engine returned an error, which is a fault of it.
	EngineFailed policy.Reason = "EngineFailed"
)

var (
	// ErrCorrupt says that a message is not in the form that its headers claim: damage,
	// or who made it does not follow the form. No second try fixes it. The errors below
	// match it too.
	ErrCorrupt = errors.New("corrupt message")
	// ErrHeader says that the headers have no valid meaning.
	ErrHeader = fmt.Errorf("%w: invalid headers", ErrCorrupt)
	// ErrTooLong says that the plain payload would be longer than the caller allows.
	ErrTooLong = fmt.Errorf("%w: too long", ErrCorrupt)
	// ErrPayload says that the payload is not what the headers describe. It comes with
	// the engine's error.
	ErrPayload = fmt.Errorf("%w: invalid payload", ErrCorrupt)
	// ErrChecksum says that the plain payload is not the one that was put.
	ErrChecksum = fmt.Errorf("%w: checksum mismatch", ErrCorrupt)
	// ErrDictionary says that the queue does not have the dictionary that the payload refers to.
	ErrDictionary = fmt.Errorf("%w: its dictionary is missing", ErrCorrupt)
)

// CodecError says that this program has no engine for a message's codec.
type CodecError struct {
	Codec codec.ID
}

func (e *CodecError) Error() string {
	return fmt.Sprintf("no engine for %v in this program", e.Codec)
}
