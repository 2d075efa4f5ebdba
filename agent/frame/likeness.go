// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import "github.com/lighterage/lighterage/agent/estimate"

const (
	// Where so many blocks in a row promised about the same, every second is sampled, then
	// every fourth, and every eighth at last: those between are taken to be like the last. Of
	// hopeless ones it is every sixteenth at last.
	similar = 4
	// alike is how far, as a share of the block, two samples may differ that promise the same.
	alike = 1.0 / 16
	// Smaller blocks, in bytes, say little of others.
	telling = 16 << 10
)

// likeness is what the samples of an encoder's last blocks had in common. The zero value knows nothing.
type likeness struct {
	// alike samples in a row, the last of which promised a share and was worth it; so many
	// blocks are still taken to be like it.
	alike, trusted int
	share          float64
	worth          bool
}

// recall returns what a block promises that is taken to be like those before. One that is to be hopeless has to be all
// noise at a look, which notices most changes at once; what the look cannot tell from noise, such as records that were
// compressed one by one, waits for the next sample.
func (l *likeness) recall(plain []byte) (estimate.Prediction, bool) {
	if l.trusted == 0 || len(plain) < telling || !l.worth && !estimate.Noise(plain) {
		return estimate.Prediction{}, false
	}
	l.trusted--
	return estimate.Prediction{Size: int(l.share * float64(len(plain))), Worth: l.worth}, true
}

// learn takes in what the sample of a block of a length promised.
func (l *likeness) learn(length int, s sample) {
	if length < telling {
		return
	}
	share := float64(s.predicted.Size) / float64(length)
	// A probe is to be followed by others if it finds something.
	if s.verdict != estimate.Probe && s.predicted.Worth == l.worth && max(share-l.share, l.share-share) <= alike {
		l.alike++
	} else {
		l.alike = 0
	}
	l.share, l.worth = share, s.predicted.Worth
	if s.verdict == estimate.Skip || l.worth {
		l.trusted = trust(l.alike, l.worth)
	}
}

// forget has the next block sampled: one became other than was promised.
func (l *likeness) forget() { l.alike, l.trusted = 0, 0 }

// trust returns how many blocks are taken to be like the last after so many alike.
func trust(samples int, worth bool) int {
	switch {
	case samples < similar:
		return 0
	case samples < 2*similar:
		return 1
	case samples < 3*similar:
		return 3
	case samples < 4*similar || worth:
		return 7
	default:
		return 15
	}
}
