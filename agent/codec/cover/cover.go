// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cover

import (
	"encoding/binary"
	"slices"
)

const (
	// word is how many bytes are counted together.
	word = 8
	// segment is the longest piece in bytes that is taken at a time, and passes how many are taken of each part of the
	// samples.
	segment, passes = 256, 4
	// leastPart is the shortest part in segments.
	leastPart = 10
	// Parts that give nothing end the search when there were so many in a row, and it ends after so many passes however
	// short the pieces were.
	fewestIdle, mostIdle, mostPasses = 10, 100, 4 * passes

	hashBits = 20
	prime    = 0xcf1bbcdcb7a56463
)

func hash(b []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(b) * prime >> (64 - hashBits))
}

// words counts in how many other samples a word is. Words that share a hash share a count.
type words struct {
	counts []uint32
	// active are how often words are in the piece that is looked at.
	active []uint16
	all    []byte // the samples, one after the other
}

// cover returns at most size bytes of the samples: those pieces whose words are in most other samples, the best ones
// last, where references to them are shortest. It is COVER, as zstd's own trainer has it (Liao and others, "Effective
// construction of relative Lempel-Ziv dictionaries", 2016), but for one thing: a word counts once for each sample,
// because what a message repeats it finds in itself.
func cover(samples [][]byte, size int) []byte {
	length := 0
	for _, s := range samples {
		length += len(s)
	}
	w := words{
		counts: make([]uint32, 1<<hashBits), active: make([]uint16, 1<<hashBits), all: make([]byte, 0, length),
	}
	last := make([]uint32, 1<<hashBits)
	for i, s := range samples {
		for at := range len(s) - word + 1 {
			if h := hash(s[at:]); last[h] != uint32(i+1) {
				last[h] = uint32(i + 1)
				w.counts[h]++
			}
		}
		w.all = append(w.all, s...)
	}
	for h, n := range w.counts {
		w.counts[h] = max(n, 1) - 1
	}
	total := len(w.all) - word + 1
	part := max(total/max(1, size/segment/passes), leastPart*segment)
	parts := max(1, total/part)
	out, tail := make([]byte, size), size
	idle, enough := 0, max(fewestIdle, min(mostIdle, parts/8))
	for n := 0; tail >= word && idle < enough && n < mostPasses*parts; n++ {
		i := n % parts
		from, to := w.best(i*part, min((i+1)*part, total))
		if from == to {
			idle++
			continue
		}
		idle = 0
		piece := w.all[from : to+word-1]
		piece = piece[:min(len(piece), tail)]
		tail -= copy(out[tail-len(piece):], piece)
	}
	return slices.Clip(out[tail:])
}

// best takes the words of the best piece that begins and ends in a range of words, and returns where they are; none
// when no word there is in another sample.
func (w *words) best(begin, end int) (from, to int) {
	const longest = segment - word + 1
	var score, most uint64
	first := begin
	for at := begin; at < end; at++ {
		h := hash(w.all[at:])
		if w.active[h] == 0 {
			score += uint64(w.counts[h])
		}
		w.active[h]++
		if at-first >= longest {
			score -= w.leave(first)
			first++
		}
		if score > most {
			most, from, to = score, first, at+1
		}
	}
	for ; first < end; first++ {
		w.leave(first)
	}
	for from < to && w.counts[hash(w.all[from:])] == 0 {
		from++
	}
	for from < to && w.counts[hash(w.all[to-1:])] == 0 {
		to--
	}
	for at := from; at < to; at++ {
		w.counts[hash(w.all[at:])] = 0
	}
	return from, to
}

// leave takes a word out of the piece that is looked at and returns what it was worth there.
func (w *words) leave(at int) uint64 {
	h := hash(w.all[at:])
	if w.active[h]--; w.active[h] > 0 {
		return 0
	}
	return uint64(w.counts[h])
}
