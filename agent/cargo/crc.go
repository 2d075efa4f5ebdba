// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import "hash/crc32"

// powers[k] is x to the power 2^k, modulo the polynomial of CRC-32, in the order of bits that CRC-32 has: the highest
// bit is the factor of x^0.
var powers = func() (p [64]uint32) {
	p[0] = 1 << 30
	for k := 1; k < len(p); k++ {
		p[k] = multiply(p[k-1], p[k-1])
	}
	return p
}()

// multiply multiplies two polynomials modulo that of CRC-32.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}

// CombineCRC32 returns the CRC-32 (IEEE) of bytes whose first part has the CRC-32 first, and whose second part, of so
// many bytes, has second.
func CombineCRC32(first, second uint32, length int64) uint32 { return combine(first, second, length) }

// combine returns the CRC-32 of bytes whose first part has the CRC-32 first, and whose second part, of so many bytes,
// has second: the first one times x to the power of the bits that follow it.
func combine(first, second uint32, length int64) uint32 {
	shift := uint32(1) << 31
	for k, n := 3, uint64(length); n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			shift = multiply(powers[k], shift)
		}
	}
	return multiply(shift, first) ^ second
}
