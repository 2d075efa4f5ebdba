// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

var (
	// ErrCorrupt says that bytes are not a valid block or stream: damage or a peer
	// that does not follow the format. The errors below match it too.
	ErrCorrupt = errors.New("corrupt block")
	// ErrHeader says that a header has no valid meaning.
	ErrHeader = fmt.Errorf("%w: invalid header", ErrCorrupt)
	// ErrTruncated says that bytes are missing: of a header, of a payload, or the
	// last block of a stream.
	ErrTruncated = fmt.Errorf("%w: cut short", ErrCorrupt)
	// ErrTrailing says that bytes follow a block or blocks follow the last one.
	ErrTrailing = fmt.Errorf("%w: more follows the end", ErrCorrupt)
	// ErrPayload says that a payload is not what its header describes. It comes with
	// the engine's error.
	ErrPayload = fmt.Errorf("%w: invalid payload", ErrCorrupt)
	// ErrChecksum says that the plain block is not the one that was sent.
	ErrChecksum = fmt.Errorf("%w: checksum mismatch", ErrCorrupt)

	// ErrTooLarge says that the caller gave an encoder a block beyond MaxPlain.
	ErrTooLarge = fmt.Errorf("block of more than %d bytes", MaxPlain)
	// ErrEnded says that the caller gave an encoder a block after the last one.
	ErrEnded = errors.New("block after the last one")
)

// SequenceError says that a block is not the one that comes next: blocks are
// missing, repeated or out of order. It matches ErrCorrupt.
type SequenceError struct {
	Want, Got uint64
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("corrupt stream: block %d where block %d belongs", e.Got, e.Want)
}

// Unwrap returns ErrCorrupt.
func (e *SequenceError) Unwrap() error { return ErrCorrupt }

// VersionError says that a block has a version of the format that this program
// does not read.
type VersionError struct {
	Version uint8
}

func (e *VersionError) Error() string {
	return fmt.Sprintf(
		"block format version %d: this program reads versions %d and %d; use the same release on both sides", e.Version,
		version, versionJoinable,
	)
}

// CodecError says that this program has no engine for a block's codec.
type CodecError struct {
	Codec codec.ID
}

func (e *CodecError) Error() string {
	return fmt.Sprintf("no engine for %v in this program", e.Codec)
}
