// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

const (
	// What is done changes after so many looks in a row that say so.
	classConfirm = 2
	// So many looks in a row it takes to choose again what took longer than what is done now takes. Each time this is
	// tried it takes twice as many, up to the most.
	retryLeast, retryMost = 8, 256
	// A choice that was tried again and kept for so many looks was right.
	retryKept = 64
)

// retry remembers of the choice that a class gave up what it took then. Figures of the network hold for what is sent at
// the time: a token bucket is fast for bodies that are compressed and slow for the same bodies as they are, so that
// either choice alone looks worse than the other. The zero value has given up nothing.
type retry struct {
	took    float64 // by serving; 0: nothing was given up
	serving Serving
	looks   int  // that the next attempt takes; 0: the least
	tried   bool // what is done now is an attempt
	kept    int  // looks since the last change
}

// disproved reports whether the choice that was given up took more than what is done now takes.
func (r *retry) disproved(s Serving, takes float64) bool { return r.took > takes && r.serving == s }

// confirm returns how many looks in a row it takes to change what is done.
func (r *retry) confirm(s Serving, takes float64) int {
	if r.disproved(s, takes) {
		return max(r.looks, retryLeast)
	}
	return classConfirm
}

// change takes in that what is done, which takes so much, is given up for the other choice.
func (r *retry) change(s Serving, takes float64) {
	looks, disproved := r.looks, r.disproved(s, takes)
	if r.tried && r.kept >= retryKept {
		looks = 0
	}
	if disproved {
		looks = min(2*max(looks, retryLeast), retryMost)
	}
	*r = retry{took: takes, serving: s, looks: looks, tried: disproved}
}
