// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate

import (
	"fmt"
	"math/rand/v2"
)

var words = []string{
	"account", "balance", "transfer", "ledger", "cluster", "volume", "journal", "record", "status", "complete",
	"reconcile",
	"the", "of", "and", "to", "in", "is", "with", "for", "on", "at", "by", "from", "was", "not", "error", "warning",
	"info",
}

// Sample returns size bytes of text, log lines and fixed records, the same bytes every time and on every machine.
func Sample(size int) []byte {
	r := rand.New(rand.NewPCG(0x6c696768, 0x74657261))
	b := make([]byte, 0, size+512)
	for len(b) < size {
		switch r.IntN(3) {
		case 0:
			for range 8 + r.IntN(16) {
				b = append(b, words[r.IntN(len(words))]...)
				b = append(b, ' ')
			}
			b = append(b, ".\n"...)
		case 1:
			b = fmt.Appendf(b, "2031-%02d-%02dT%02d:%02d:%02d.%03dZ %s node-%d request=%08x bytes=%d\n",
				1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000),
				words[r.IntN(len(words))], r.IntN(40), r.Uint32(), r.IntN(1<<20))
		default:
			// A record: number, key, amount, and fields that are mostly empty.
			b = fmt.Appendf(b, "%010d%-16s%012d%-40s", len(b), words[r.IntN(len(words))], r.IntN(1<<30), "")
			for range 8 {
				b = append(b, 0, 0, 0, byte(r.IntN(256)))
			}
		}
	}
	return b[:size]
}
