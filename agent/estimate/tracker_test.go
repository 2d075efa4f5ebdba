// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/estimate"
)

const mib = 1 << 20

var (
	hopeless  = estimate.Prediction{Size: mib}
	promising = estimate.Prediction{Size: mib / 4, Worth: true}
)

// stream runs blocks of 1 MiB through a tracker. predicted and size say what is expected of a block and what it
// becomes. It returns the verdicts as a string: s, c, p, and P for a probe that shrank.
func stream(t *estimate.Tracker, n int, predicted func(i int) estimate.Prediction, size func(i int) int) string {
	verdicts := make([]byte, n)
	for i := range n {
		p := predicted(i)
		v, _ := t.Judge(mib, p)
		verdicts[i] = "scp"[v]
		if v != estimate.Skip && t.Observe(v, mib, p, size(i)) {
			verdicts[i] = 'P'
		}
	}
	return string(verdicts)
}

func always(p estimate.Prediction) func(int) estimate.Prediction {
	return func(int) estimate.Prediction { return p }
}

func becomes(size int) func(int) int { return func(int) int { return size } }

// places returns where a verdict is.
func places(verdicts string, verdict byte) []int {
	var at []int
	for i := range len(verdicts) {
		if verdicts[i] == verdict {
			at = append(at, i)
		}
	}
	return at
}

func TestProbesBackOff(t *testing.T) {
	var tracker estimate.Tracker
	got := places(stream(&tracker, 10_000, always(hopeless), becomes(mib)), 'p')
	want := []int{63, 191, 447, 959, 1983, 3007, 4031, 5055, 6079, 7103, 8127, 9151}
	if !equal(got, want) {
		t.Errorf("probes at %v, want %v", got, want)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestGoesOnTrying: once a probe has shrunk, blocks are compressed for as long as they shrink.
func TestGoesOnTrying(t *testing.T) {
	var tracker estimate.Tracker
	// What is predicted to be hopeless shrinks until block 200, and not from then on.
	size := func(i int) int {
		if i < 200 {
			return mib / 2
		}
		return mib
	}
	got := stream(&tracker, 400, always(hopeless), size)
	if missed := places(got, 'P'); len(missed) != 200-63 || missed[0] != 63 {
		t.Errorf("%d misses from %d on", len(missed), missed[0])
	}
	// Four fail; then the prediction is believed and probed as at first.
	if failed := places(got, 'p'); !equal(failed, []int{200, 201, 202, 203, 267, 395}) {
		t.Errorf("probes that failed: %v", failed)
	}
}

// TestSmallGainIsNoMiss: what shrinks by less than is worth the effort was predicted well.
func TestSmallGainIsNoMiss(t *testing.T) {
	var tracker estimate.Tracker
	if got := places(stream(&tracker, 1000, always(hopeless), becomes(mib-mib/32+1)), 'P'); len(got) > 0 {
		t.Errorf("misses at %v", got)
	}
	tracker = estimate.Tracker{}
	if got := places(stream(&tracker, 64, always(hopeless), becomes(mib-mib/32)), 'P'); len(got) != 1 {
		t.Errorf("misses at %v", got)
	}
}

// TestStopsTrying: what fails to shrink against the prediction is left alone for a while, and for longer the next time.
func TestStopsTrying(t *testing.T) {
	var tracker estimate.Tracker
	got := places(stream(&tracker, 1000, always(promising), becomes(mib)), 'c')
	want := []int{0, 1, 2, 3, 20, 53, 118, 247, 504, 761}
	if !equal(got, want) {
		t.Errorf("tried at %v, want %v", got, want)
	}
	// One that shrinks ends it.
	if got := places(stream(&tracker, 300, always(promising), becomes(mib/4)), 's'); len(got) == 0 ||
		got[len(got)-1] != len(got)-1 {
		t.Errorf("skipped at %v", got)
	}
	if got := places(stream(&tracker, 4, always(promising), becomes(mib)), 'c'); len(got) != 4 {
		t.Errorf("tried at %v", got)
	}
}

// TestPauseIsForTheLike: a pause does not keep much better data from being compressed.
func TestPauseIsForTheLike(t *testing.T) {
	var tracker estimate.Tracker
	poor := estimate.Prediction{Size: mib * 15 / 16, Worth: true}
	if got := stream(&tracker, 6, always(poor), becomes(mib)); got != "ccccss" {
		t.Fatalf("poor blocks: %s", got)
	}
	if got := stream(&tracker, 3, always(promising), becomes(mib/4)); got != "ccc" {
		t.Errorf("good blocks: %s", got)
	}
	if got := stream(&tracker, 3, always(poor), becomes(mib*15/16)); got != "ccc" {
		t.Errorf("poor blocks after good ones: %s", got)
	}
}

// TestCorrection: predictions that are wrong in the same way become better.
func TestCorrection(t *testing.T) {
	var tracker estimate.Tracker
	const size = mib / 5
	for i := range 10 {
		v, corrected := tracker.Judge(mib, promising)
		if i > 0 && (corrected.Size < size*99/100 || corrected.Size > size*101/100) {
			t.Errorf("block %d: %d bytes are predicted instead of %d", i, corrected.Size, size)
		}
		tracker.Observe(v, mib, promising, size)
	}
	// However wrong they are, they stay between nothing and all.
	for _, size := range []int{1, mib - 1} {
		for range 50 {
			v, corrected := tracker.Judge(mib, promising)
			if corrected.Size < 0 || corrected.Size > mib {
				t.Errorf("%d bytes are predicted", corrected.Size)
			}
			tracker.Observe(v, mib, promising, size)
		}
	}
}

func TestVerdictsOnMixedStreams(t *testing.T) {
	var tracker estimate.Tracker
	// Every other block is noise: the tracker lets none of the others go by.
	mixed := func(i int) estimate.Prediction {
		if i%2 == 0 {
			return hopeless
		}
		return promising
	}
	size := func(i int) int { return mixed(i).Size }
	got := stream(&tracker, 1000, mixed, size)
	if compressed := places(got, 'c'); len(compressed) != 500 {
		t.Errorf("%d of 500 were compressed", len(compressed))
	}
	if probed := places(got, 'p'); !equal(probed, []int{126, 382, 894}) {
		t.Errorf("probed at %v", probed)
	}
}
