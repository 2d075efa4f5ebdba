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
//
// Those in software store what they cannot make smaller, in blocks of some KiB with a header of a few bytes each. An
// accelerator for DEFLATE has no stored blocks, and codes for every symbol that were made for the first 32 KiB. Its
// output is bounded as in zlib-ng's deflateBound, by 2n+289. A block takes 3 bits for its kind, 5+5+4 for how many
// codes there are, 19*3 for the codes of their lengths, 7 for each of 286+30 lengths, 15 for its end and 7 of padding:
// 289 bytes. A byte takes 16 bits: a literal has at most 15, a match of 3 bytes and more 15+5 for its length and 15+13
// for its distance. So its engine stores what would be longer than StoredLen says.
func PartBound(n int) int { return n + n/8 + 256 }
