// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// The figures, in the order in which marks have them.
const (
	operations = iota
	plainBytes
	wireBytes
	storedBytes
	avoidedBytes
	sendNanos
	receiveNanos
	compressNanos
	decompressNanos
	idleNanos
	networkNanos
	storeWrites
	storeReads
	storeSent
	storeReceived

	figureCount
)

// counters are figures that an agent only ever adds to. When one of them is below its mark the counting began again.
var counters = [...]int{plainBytes, wireBytes, sendNanos, receiveNanos}

// Figures are cumulative and not negative: numbers, bytes, and CPU time in nanoseconds.
type Figures [figureCount]int64

func (f Figures) zero() bool { return f == Figures{} }

// plus saturates.
func (f Figures) plus(other Figures) Figures {
	for i := range f {
		f[i] = saturated(f[i], other[i])
	}
	return f
}

// since is what has come over a mark, and the new mark. restarted figures count from 0.
func (f Figures) since(mark Figures) (more, next Figures) {
	for _, i := range counters {
		if f[i] < mark[i] {
			return f, f
		}
	}
	next = mark
	for i := range f {
		if f[i] > mark[i] {
			more[i], next[i] = f[i]-mark[i], f[i]
		}
	}
	return more, next
}

// Dimensions are what rows tell apart besides day and prices.
type Dimensions struct {
	Kind, Peer  string
	Direction   v1alpha1.Direction
	EngineClass v1alpha1.EngineClass
	NodeClass   string
}

// Life is what counts from 0.
type Life struct {
	// ID tells the lives of an object apart.
	ID string
	// Ended: its figures do not change any more. StartTime and EndTime are when it began and ended, zero if that is not
	// known.
	Ended              bool
	StartTime, EndTime time.Time
	Dimensions
	Figures Figures
	// Prices in force; the zero value if there are none. Their name is empty. Only what is booked is priced: most lives
	// are booked already. Nil: there are none.
	Prices func() v1alpha1.StatementPrices
}

// Account is what an object has used.
type Account struct {
	UID             types.UID
	ResourceVersion string
	// Created is when the API server made the object.
	Created time.Time
	// Deleting: the object waits for its figures to be booked.
	Deleting bool
	// Lives in the order in which they began. Those without figures are there, too, so that a gap shows.
	Lives []Life
	// Trimmed: there may have been others before the first of them.
	Trimmed bool
	// StoredBytes are at rest now, of the dimensions and prices of Stored.
	StoredBytes int64
	Stored      Life
}

// Used reports whether there is something to book at all.
func (a Account) Used() bool {
	return a.StoredBytes > 0 || slices.ContainsFunc(a.Lives, func(l Life) bool { return !l.Figures.zero() })
}

func saturated(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}
