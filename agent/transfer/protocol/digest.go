// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"crypto/sha256"
	"hash"

	"github.com/zeebo/xxh3"
)

// DigestSize is the length of a digest in bytes.
const DigestSize = 16

// Digest is of a chunk (XXH3-128, see DigestOf) or of a part of one (see PartHash).
type Digest = [DigestSize]byte

// DigestOf returns the digest of a chunk.
func DigestOf(b []byte) Digest { return xxh3.Hash128(b).Bytes() }

// ZeroHash computes digests of zeros, of which those of one length are mostly wanted.
type ZeroHash struct {
	length int64
	sum    Digest
}

// Digest returns the digest of length zeros.
func (z *ZeroHash) Digest(length int64) Digest {
	if z.length != length {
		z.length, z.sum = length, DigestOf(make([]byte, length))
	}
	return z.sum
}

// PartHash computes the digests by which parts of two versions of a file are compared: SHA-256 of a salt, which is new
// for every session, and the bytes, cut to 16 bytes. Unlike the digests that find faults, these decide that something
// is not sent, and who writes to the source may gain from two parts that only seem to be equal.
type PartHash struct {
	hash hash.Hash
	salt []byte
	sum  []byte
	// zeros is the digest of zeroLength zeros: a new block volume is nothing else, and to compare is faster than to hash.
	zeros      Digest
	zeroLength int
}

// zeroPart is what a part reads as that is nothing but a hole.
var zeroPart [ChunkSize / PartsPerChunk]byte

// IsZeros reports whether a part has no byte but 0.
func IsZeros(part []byte) bool {
	return len(part) <= len(zeroPart) && bytes.Equal(part, zeroPart[:len(part)])
}

// NewPartHash returns a hash with the salt of a session.
func NewPartHash(salt []byte) *PartHash {
	return &PartHash{hash: sha256.New(), salt: salt, sum: make([]byte, 0, sha256.Size)}
}

// Digest returns the digest of a part.
func (p *PartHash) Digest(part []byte) Digest {
	if IsZeros(part) {
		return p.ofZeros(len(part))
	}
	return p.compute(part)
}

// Matches reports whether a part has the digest d.
func (p *PartHash) Matches(part []byte, d Digest) bool {
	if len(part) <= len(zeroPart) && d == p.ofZeros(len(part)) {
		return IsZeros(part)
	}
	return d == p.compute(part)
}

func (p *PartHash) ofZeros(length int) Digest {
	if p.zeroLength != length || length == 0 {
		p.zeroLength, p.zeros = length, p.compute(zeroPart[:length])
	}
	return p.zeros
}

func (p *PartHash) compute(part []byte) (d Digest) {
	p.hash.Reset()
	p.hash.Write(p.salt)
	p.hash.Write(part)
	copy(d[:], p.hash.Sum(p.sum))
	return d
}
