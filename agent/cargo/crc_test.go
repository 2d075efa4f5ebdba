// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombine(t *testing.T) {
	noise := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	want := crc32.ChecksumIEEE(noise)
	for _, at := range []int{0, 1, 2, 3, 255, 256, 32768, 65535, len(noise) - 1, len(noise)} {
		first, second := crc32.ChecksumIEEE(noise[:at]), crc32.ChecksumIEEE(noise[at:])
		if got := combine(first, second, int64(len(noise)-at)); got != want {
			t.Errorf("cut at %d: %08x, want %08x", at, got, want)
		}
	}
	// Of parts that are too long to be made: combining is associative.
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		a, b, c := r.Uint32(), r.Uint32(), r.Uint32()
		long, longer := r.Int64N(1<<33), r.Int64N(1<<43)
		left, right := combine(combine(a, b, long), c, longer), combine(a, combine(b, c, longer), long+longer)
		if left != right {
			t.Fatalf("%08x, %08x with %d bytes, %08x with %d: %08x or %08x", a, b, long, c, longer, left, right)
		}
	}
}
