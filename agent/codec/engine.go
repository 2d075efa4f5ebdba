// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"
)

// Encoder compresses blocks, one complete stream per call.
//
// It is not safe for concurrent use and is meant to be used again: Encode
// allocates nothing. An error of Encode leaves it usable.
type Encoder interface {
	// Encode compresses src into dst and returns the length written. The capacity
	// of dst beyond its length is not used; the bytes after the returned length are
	// undefined. dst and src must not overlap.
	//
	// It returns ErrDoesNotFit when the stream is longer than dst, which is how a
	// caller learns cheaply that a block does not shrink: it passes a dst one byte
	// shorter than src. An engine may say so too when fewer than Slack bytes would
	// be left. The same call would fail the same way again.
	Encode(dst, src []byte) (n int, err error)
	// Close frees what the encoder holds outside of Go's memory. Encode returns
	// ErrClosed afterwards. Closing twice is allowed.
	Close() error
}

// Decoder expands blocks, one complete stream per call.
//
// It is not safe for concurrent use and is meant to be used again: Decode
// allocates nothing. An error of Decode leaves it usable.
type Decoder interface {
	// Decode expands the one stream in src into dst and returns the length
	// written. It never writes beyond dst, whatever src holds; the bytes after the
	// returned length are undefined, all of dst is after an error. dst and src must
	// not overlap.
	//
	// An src that is not exactly one stream of at most len(dst) bytes is an error
	// for which errors.Is(err, ErrCorrupt) holds and which no second try fixes.
	Decode(dst, src []byte) (n int, err error)
	// Close frees what the decoder holds outside of Go's memory. Decode returns
	// ErrClosed afterwards. Closing twice is allowed.
	Close() error
}

// Engine makes encoders and decoders. It is safe for concurrent use.
type Engine interface {
	// Name is the engine's name as users see it, unique in a Registry.
	Name() string
	// Codec is the format the engine writes and reads.
	Codec() ID
	// Class is the kind of machinery its encoders and decoders use.
	Class() Class
	// HasLevel reports whether NewEncoder takes the level. An engine may have only
	// those at which it is of use.
	HasLevel(Level) bool
	// NewEncoder returns an encoder for one level. It fails when the engine does not
	// have the level or cannot get memory.
	NewEncoder(Level) (Encoder, error)
	// NewDecoder returns a decoder. It fails when the engine cannot get memory.
	NewDecoder() (Decoder, error)
}

// NewLowestEncoder returns an encoder of the engine for the least effort that it
// has, for callers that want any stream of it. It fails when NewEncoder does.
func NewLowestEncoder(e Engine) (Encoder, error) {
	lowest := Fast
	for _, level := range Levels() {
		if e.HasLevel(level) {
			lowest = level
			break
		}
	}
	return e.NewEncoder(lowest)
}

// Witness is what encoders and decoders of class Hardware implement besides. A
// library that drives an accelerator may quietly work in software instead; only
// the witness of a call says which it was.
type Witness interface {
	// UsedHardware reports whether the accelerator did all of the last Encode or
	// Decode that returned no error.
	UsedHardware() bool
}

// Slack is how many bytes more than its stream an Encoder may need in dst: those
// of zstd write whole words, several times in a block.
const Slack = 32

var (
	// ErrDoesNotFit says that the compressed stream is longer than the buffer.
	ErrDoesNotFit = errors.New("compressed data do not fit the buffer")
	// ErrClosed says that an encoder or decoder was used after Close.
	ErrClosed = errors.New("codec used after it was closed")

	// ErrDictionary says that bytes are no dictionary of a codec.
	ErrDictionary = errors.New("invalid dictionary")

	// ErrCorrupt says that bytes are not one valid stream of the codec. The errors
	// below, which say why as far as the engine knows, match it too.
	ErrCorrupt = errors.New("corrupt compressed data")
	// ErrTruncated says that the bytes end before the stream does.
	ErrTruncated = fmt.Errorf("%w: the stream is cut short", ErrCorrupt)
	// ErrTrailing says that bytes follow the stream's end.
	ErrTrailing = fmt.Errorf("%w: bytes follow the end of the stream", ErrCorrupt)
	// ErrTooLong says that the stream expands to more than the buffer holds.
	ErrTooLong = fmt.Errorf("%w: the stream is longer than its bound", ErrCorrupt)
)
