// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"math/rand/v2"
)

// sampleSize is the length of what is compressed, in bytes. It is several windows, so
// that matches cross what the accelerator does in one go.
const sampleSize = 128 << 10

// sample returns size bytes that shrink at every level, the same on every machine:
// messages with fixed words and fields that differ. Two deflate encoders that do not
// share their search for matches have no chance to compress them to the same bytes.
func sample(size int) []byte {
	r := rand.New(rand.NewPCG(0x64666c74, 0x63630000))
	b := make([]byte, 0, size+256)
	for n := 0; len(b) < size; n++ {
		b = fmt.Appendf(b, "<payment id=\"%08d\"><from>DE%020d</from><to>US%012x</to><amount "+
			"currency=\"EUR\">%d.%02d</amount><text>",
			n, r.Uint64N(1e18), r.Uint64N(1<<48), r.IntN(100000), r.IntN(100))
		for range r.IntN(12) {
			b = append(b, words[r.IntN(len(words))]...)
			b = append(b, ' ')
		}
		b = append(b, "</text></payment>\n"...)
	}
	return b[:size]
}

var words = []string{
	"invoice", "order", "delivery", "thank", "you", "reference", "customer", "rent", "salary", "the", "of", "for",
	"insurance",
	"premium", "instalment", "refund", "cargo", "freight", "number", "month", "year", "account",
}
