// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate

import "math"

const (
	// The look: slices spread over the block. The first few decide when they are all
	// ordinary.
	slices      = 32
	firstSlices = 8
	sliceSize   = 128
	// A slice of random bytes has 836 bits of order-0 entropy (6.5 a byte; 128 bytes are
	// too few to show all 8) with a deviation of about 9 bits. Text has around 540,
	// base64 around 700.
	noise = 784
)

// view is what a look at a block found.
type view struct {
	// ordinary and noise are where slices of either sort start.
	ordinary, noise []int
	// bits is the order-0 entropy of the ordinary ones.
	bits int
}

// part returns how many bytes of a block are of the sort that those slices are.
func (v *view) part(block []byte, sort []int) int {
	return share(len(sort), len(v.ordinary)+len(v.noise), len(block))
}

// places has space for what a view finds.
type places struct{ ordinary, noise [slices]int }

// look takes slices of a block at even distances, the first and the last at its ends.
func look(block []byte, space *places) view {
	v := spread(block, min(firstSlices, len(block)/sliceSize), space)
	if n := min(slices, len(block)/sliceSize); len(v.noise) > 0 && n > firstSlices {
		v = spread(block, n, space)
	}
	return v
}

func spread(block []byte, n int, space *places) view {
	v := view{ordinary: space.ordinary[:0], noise: space.noise[:0]}
	for i := range n {
		at := share(i, n-1, len(block)-sliceSize)
		bits := entropy((*[sliceSize]byte)(block[at:]))
		if bits < noise {
			v.ordinary = append(v.ordinary, at)
			v.bits += bits
		} else {
			v.noise = append(v.noise, at)
		}
	}
	return v
}

// Noise reports whether a block looks like noise in all of a few slices: what Predict would find hopeless, or what an
// application compressed record by record.
func Noise(block []byte) bool {
	var space places
	v := spread(block, min(firstSlices, len(block)/sliceSize), &space)
	return len(v.noise) > 0 && len(v.ordinary) == 0
}

// entropy returns the order-0 entropy of a slice in bits.
func entropy(slice *[sliceSize]byte) int {
	var count [256]uint8
	sum := 0
	for _, b := range slice {
		n := count[b]
		count[b] = n + 1
		sum += int(more[n])
	}
	return sliceSize*sliceBits - sum/256
}

// sliceBits is the binary logarithm of sliceSize.
const sliceBits = 7

// more holds by how much 256 n log2 n grows from each n to the next. Integers, so that
// all machines decide alike.
var more = func() (table [256]uint16) {
	nLogN := func(n int) int { return int(math.Round(256 * float64(n) * math.Log2(float64(n)))) }
	for n := 1; n < sliceSize; n++ {
		table[n] = uint16(nLogN(n+1) - nLogN(n))
	}
	return table
}()
