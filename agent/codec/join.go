// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"
)

const (
	// JoinEnd is what a joinable block ends in: DEFLATE's shortest last block. Without it blocks that follow one another
	// are one stream that has not ended.
	JoinEnd = "\x03\x00"
	// MinJoinable is the length in bytes of the shortest joinable block, which expands to nothing.
	MinJoinable = len(flushed) + 1 + len(JoinEnd)

	// flushed is what a flush ends in: the lengths of a stored block without bytes. They begin at a boundary of bytes.
	flushed = "\x00\x00\xff\xff"
)

var errNotFlushed = errors.New("the engine did not flush")

// EncodeJoinable compresses src into dst as Encoder.Encode of an engine of Deflate does, in a form that can be joined:
// a flush, and then JoinEnd. It is a whole stream that every decoder reads. No bit of it before JoinEnd says that a
// stream ends, it ends at a boundary of bytes, and it refers to nothing before it. So blocks without their JoinEnd, of
// any engines and in any order, and one JoinEnd after the last, are one stream of all that was compressed.
//
// It is 5 to 7 bytes longer than what Encode writes, as a rule.
func EncodeJoinable(e StreamEncoder, dst, src []byte) (int, error) {
	if len(dst) < MinJoinable {
		return 0, ErrDoesNotFit
	}
	n := copy(dst, "\x00"+flushed)
	if len(src) > 0 {
		if err := e.Restart(); err != nil {
			return 0, err
		}
		var err error
		if n, err = e.EncodePart(dst[:len(dst)-len(JoinEnd)], src, false); err != nil {
			return 0, err
		}
		// Another engine's bytes come next in a file that nobody expands before it is needed.
		if n < len(flushed) || string(dst[n-len(flushed):n]) != flushed {
			return 0, fmt.Errorf("make a joinable block of %d bytes: %w", len(src), errNotFlushed)
		}
	}
	return n + copy(dst[n:], JoinEnd), nil
}

// EndsJoinable reports whether a stream ends as those of EncodeJoinable do. Only expanding it tells whether it is one.
func EndsJoinable(stream []byte) bool {
	return len(stream) >= MinJoinable && string(stream[len(stream)-len(flushed)-len(JoinEnd):]) == flushed+JoinEnd
}
