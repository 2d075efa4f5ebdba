// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate

const (
	// The first hopeless block to be compressed all the same, and the most that are
	// skipped between two. The distance doubles with each that did not shrink, so that
	// probes cost a 64th of compressing everything at first and a 1024th in the end.
	firstProbe = 64
	maxProbe   = 1024
	// stubborn is how many blocks in a row may fail to shrink after one that shrank
	// against the prediction, until predictions are believed again.
	stubborn = 4

	// patience is how many blocks in a row may fail to shrink against the prediction
	// until the like of them is left alone, for firstPause blocks at first and at most
	// for maxPause.
	patience   = 4
	firstPause = 16
	maxPause   = 256
	// alike is by how many 256ths of its length a block must be predicted to become
	// smaller than those that failed, to be tried in spite of a pause.
	alike = 16

	// one is the bias of predictions that were right.
	one = 1024
	// Predictions are never corrected by more than this.
	minBias, maxBias = one / 4, one * 2
)

// Verdict is what to do with a block.
type Verdict uint8

const (
	// Skip means: send the block as it is.
	Skip Verdict = iota
	// Compress means: the block is expected to shrink.
	Compress
	// Probe means: compress the block although it is not expected to shrink, to see
	// whether that is true.
	Probe
)

// Tracker turns predictions into verdicts and learns from what becomes of the
// blocks. What it does depends on nothing but the calls made to it. The zero value
// is ready; it is for the blocks of one stream and one encoder.
type Tracker struct {
	bias int // true sizes by predicted ones, smoothed, in 1024ths; 0: nothing is known

	skipped int // hopeless blocks since the last probe
	gap     int // how many to skip; 0: firstProbe
	trying  int // hopeless blocks still to be tried after one that shrank

	wasted int // blocks in a row that failed to shrink
	failed int // the least size that one of those was predicted to have, in 256ths of its length
	pause  int // blocks still to be left alone
	length int // of the next pause; 0: firstPause
}

// Judge returns what to do with a block of the length and its prediction, corrected
// by how much earlier ones were wrong. After Compress and Probe, Observe has to be
// called.
func (t *Tracker) Judge(length int, p Prediction) (Verdict, Prediction) {
	if !p.Worth {
		if t.trying > 0 || t.skipped+1 >= max(t.gap, firstProbe) {
			return Probe, p
		}
		t.skipped++
		return Skip, p
	}
	if t.pause > 0 && share(p.Size, length, 256) > t.failed-alike {
		t.pause--
		return Skip, p
	}
	if t.bias != 0 {
		p.Size = min(int(int64(p.Size)*int64(t.bias)/one), length)
	}
	return Compress, p
}

// Observe tells what became of a block that was not skipped: p is its prediction as
// it was before Judge corrected it, size what it compressed to, which is its length
// if it did not shrink. It reports whether a probe showed that the prediction was
// wrong.
func (t *Tracker) Observe(v Verdict, length int, p Prediction, size int) (missed bool) {
	switch v {
	case Probe:
		return t.probed(worth(length-size, length))
	case Compress:
		t.compressed(length, p, size)
	}
	return false
}

func (t *Tracker) probed(shrank bool) bool {
	t.skipped = 0
	switch {
	case shrank:
		t.gap, t.trying = firstProbe, stubborn
	case t.trying > 0:
		t.trying--
	default:
		t.gap = min(2*max(t.gap, firstProbe), maxProbe)
	}
	return shrank
}

func (t *Tracker) compressed(length int, p Prediction, size int) {
	if size >= length {
		if t.wasted == 0 {
			t.failed = share(p.Size, length, 256)
		}
		t.failed = min(t.failed, share(p.Size, length, 256))
		t.wasted++
		if t.wasted >= patience {
			t.pause = max(t.length, firstPause)
			t.length = min(2*t.pause, maxPause)
		}
		return
	}
	t.wasted, t.pause, t.length = 0, 0, 0
	ratio := maxBias
	if p.Size > 0 {
		ratio = int(min(max(int64(size)*one/int64(p.Size), minBias), maxBias))
	}
	if t.bias == 0 {
		t.bias = ratio
	}
	t.bias += (ratio - t.bias) / 4
}
