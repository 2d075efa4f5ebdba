// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "testing"

// TestDraw: of a short range each sequence once, of a long one any, and always those of the range, equal for equal
// seeds.
func TestDraw(t *testing.T) {
	for _, span := range []uint64{1, 7, maxOrder, maxOrder + 1, 1 << 60} {
		const low = 1000
		a, b := newDraw(low, low+span-1, 5), newDraw(low, low+span-1, 5)
		had := map[uint64]bool{}
		for range 2 * maxOrder {
			sequence, ok := a.next()
			if again, also := b.next(); again != sequence || also != ok {
				t.Fatalf("%d: %d and %d", span, sequence, again)
			}
			if !ok {
				break
			}
			if sequence < low || sequence-low >= span || span <= maxOrder && had[sequence] {
				t.Fatalf("%d: %d", span, sequence)
			}
			had[sequence] = true
		}
		if span <= maxOrder && uint64(len(had)) != span || span > maxOrder && len(had) < maxOrder/2 {
			t.Errorf("%d: %d different ones", span, len(had))
		}
	}
	if _, ok := newDraw(6, 5, 1).next(); ok {
		t.Error("something of an empty stream")
	}
	d := newDraw(1, 9, 1)
	if !d.first(3) || d.first(3) || !d.first(4) {
		t.Error("it does not know what it has had")
	}
}
