// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"crypto/sha256"
	"hash"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// A chunk is compared with the version that is at the destination, and looked for holes, in parts of a 16th of the
// chunk size. A segment says which parts of its piece are not in the block: those that the receiver has, and those that
// are zeros.
const (
	partsPerChunk = 16
	allParts      = 1<<partsPerChunk - 1
	// comparedSize is how large a file, and the version of it that is at the destination, must be to be compared.
	// Smaller ones are sent sooner than asked for.
	comparedSize = 256 << 10
	// saltSize is how many random bytes go into the digests of parts.
	saltSize = 32
)

// parts is a set of parts of a piece, a bit for each.
type parts uint32

func (p parts) has(i int) bool { return p>>i&1 != 0 }

// partsOf returns how many parts a piece of length bytes has.
func partsOf(length, chunk int64) int {
	unit := chunk / partsPerChunk
	return int((length + unit - 1) / unit)
}

// bytes returns how many bytes of a piece are in the parts of the set.
func (p parts) bytes(length, chunk int64) int64 {
	unit := chunk / partsPerChunk
	n := int64(bits.OnesCount32(uint32(p))) * unit
	if last := partsOf(length, chunk) - 1; last >= 0 && p.has(last) {
		n -= int64(last+1)*unit - length
	}
	return n
}

// runs calls visit for the longest ranges of a piece of length bytes whose parts are all, or all not, in the set.
func (p parts) runs(length, chunk int64, visit func(in bool, start, end int64) error) error {
	unit, n := chunk/partsPerChunk, partsOf(length, chunk)
	for first := 0; first < n; {
		last := first + 1
		for last < n && p.has(last) == p.has(first) {
			last++
		}
		if err := visit(p.has(first), int64(first)*unit, min(int64(last)*unit, length)); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// zeroHash computes digests of zeros, of which those of one length are mostly wanted.
type zeroHash struct {
	length int64
	sum    [digestSize]byte
}

func (z *zeroHash) digest(length int64) [digestSize]byte {
	if z.length != length {
		z.length, z.sum = length, xxh3.Hash128(make([]byte, length)).Bytes()
	}
	return z.sum
}

// partHash computes the digests by which parts of two versions of a file are compared: SHA-256 of a salt, which is new
// for every session, and the bytes, cut to 16 bytes. Unlike the digests that find faults, these decide that something
// is not sent, and who writes to the source may gain from two parts that only seem to be equal.
type partHash struct {
	hash hash.Hash
	salt []byte
	sum  []byte
}

func newPartHash(salt []byte) *partHash {
	return &partHash{hash: sha256.New(), salt: salt, sum: make([]byte, 0, sha256.Size)}
}

func (p *partHash) digest(b []byte) (d [digestSize]byte) {
	p.hash.Reset()
	p.hash.Write(p.salt)
	p.hash.Write(b)
	copy(d[:], p.hash.Sum(p.sum))
	return d
}
