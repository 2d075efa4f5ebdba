// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate

// The rules by which engines of one codec are chosen. docs/decisions/015-choice-of-engines.md
// has the reasons.
const (
	// An engine that is less than half as fast as the fastest is out of the question,
	// however well it compresses: for that there are other levels.
	slowest = 0.5
	// Of the others those are as good as the best whose output is at most a quarter
	// larger than the smallest.
	tolerance = 1.25
	// An engine takes the place of one that the static order prefers when it is faster
	// by a tenth. Less may be noise.
	margin = 1.1
)

// Figure is what one engine was measured to do on one core.
type Figure struct {
	// Engine is its name.
	Engine string
	// BytesPerSecond is the rate of plain bytes by CPU time.
	BytesPerSecond float64
	// PlainBytes is the length of the sample, CompressedBytes what it became. The second
	// is 0 when inflating was measured.
	PlainBytes, CompressedBytes int64
	// WireBytes is CompressedBytes with blocks that did not shrink counted as they are.
	WireBytes int64
	// Err is why there is no figure.
	Err error
}

// Ratio returns plain by compressed bytes, 0 when nothing was compressed.
func (f Figure) Ratio() float64 {
	if f.CompressedBytes <= 0 {
		return 0
	}
	return float64(f.PlainBytes) / float64(f.CompressedBytes)
}

func (f Figure) valid() bool { return f.Err == nil && f.BytesPerSecond > 0 }

// ToCompress returns which of the engines of one codec, given in static order, is to
// compress: the fastest of those whose output is not much larger than the smallest.
// It is -1 when no figure is valid.
func ToCompress(figures []Figure) int {
	fast := quick(figures)
	smallest := int64(0)
	for i, f := range figures {
		if fast[i] && (smallest == 0 || f.CompressedBytes < smallest) {
			smallest = f.CompressedBytes
		}
	}
	return first(figures, func(i int) bool {
		return fast[i] && float64(figures[i].CompressedBytes) <= tolerance*float64(smallest)
	})
}

// ToInflate returns which of the engines of one codec, given in static order, is to
// inflate: the fastest. It is -1 when no figure is valid.
func ToInflate(figures []Figure) int {
	return first(figures, func(i int) bool { return figures[i].valid() })
}

// quick reports of each figure whether it is at least half as fast as the fastest.
func quick(figures []Figure) []bool {
	fastest := 0.0
	for _, f := range figures {
		if f.valid() {
			fastest = max(fastest, f.BytesPerSecond)
		}
	}
	in := make([]bool, len(figures))
	for i, f := range figures {
		in[i] = f.valid() && f.BytesPerSecond >= slowest*fastest
	}
	return in
}

// first returns the first of the admitted that is about as fast as the fastest of
// them, -1 when there is none.
func first(figures []Figure, admitted func(i int) bool) int {
	fastest := 0.0
	for i, f := range figures {
		if admitted(i) {
			fastest = max(fastest, f.BytesPerSecond)
		}
	}
	for i, f := range figures {
		if admitted(i) && f.BytesPerSecond*margin > fastest {
			return i
		}
	}
	return -1
}
