// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

// StreamEncoder is what encoders implement besides Encoder when they can make one
// stream in parts, as data arrive that a receiver is waiting for. All of those of
// Deflate and Zstd do.
//
// What EncodePart leaves behind is told from a block by the first call: Encode in
// between begins a new stream as well.
type StreamEncoder interface {
	Encoder
	// Restart begins a new stream and forgets the one before, finished or not.
	Restart() error
	// EncodePart compresses the next part of the stream into dst and returns the
	// length written. A receiver that has everything up to there can expand every
	// byte of the parts so far; parts may refer back to earlier ones. The last part
	// ends the stream; src may be empty then. dst and src must not overlap.
	//
	// PartBound(len(src)) bytes are always enough for dst; what does not fit is
	// ErrDoesNotFit. After an error the stream is lost and Restart is due.
	EncodePart(dst, src []byte, last bool) (n int, err error)
}

// PartBound returns the length in which every engine's part of n plain bytes fits.
func PartBound(n int) int { return n + n/8 + 256 }
