// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/policy"
)

// link is what a network is found to carry, which takes it some looks to follow what is sent.
type link struct {
	compressed, asIs, now float64 // seconds for a byte
}

// looks has a class look so many times, and returns how many of them found bodies sent as they are.
func (l *link) looks(k *policy.Class, times int) (asIs int) {
	for range times {
		next := l.compressed
		if k.Reason() != "" {
			next = l.asIs
			asIs++
		}
		l.now += (next - l.now) / 2
		k.Observe(attempt(0.2, 300e6))
		k.Look(policy.Serving{}, policy.Carrier{Link: l.now}, false)
	}
	return asIs
}

// TestClassOverATokenBucket: a network that is fast for what is compressed and slow for the same as it is is found out,
// and one that has become fast for both is noticed nevertheless. So is one that changes again and again, each time for
// long.
func TestClassOverATokenBucket(t *testing.T) {
	var k policy.Class
	bucket, fast := link{compressed: loopback, asIs: 80e-9}, link{compressed: loopback, asIs: loopback}
	bucket.looks(&k, 2000)
	if n := bucket.looks(&k, 4000); n == 0 || n > 4000/20 {
		t.Errorf("%d of 4000 looks found bodies sent as they are", n)
	}
	for range 4 { // what was tried in vain before the last change delays the first one only
		fast.looks(&k, 1000)
		if n := fast.looks(&k, 100); n != 100 {
			t.Errorf("as they are in %d of 100 looks over a fast network", n)
		}
		slow := link{compressed: tenMbit, asIs: tenMbit}
		slow.looks(&k, 20)
		if n := slow.looks(&k, 100); n != 0 {
			t.Errorf("as they are in %d of 100 looks over a slow network", n)
		}
	}
	fast.looks(&k, 30)
	if n := fast.looks(&k, 10); n != 10 {
		t.Errorf("as they are in %d of 10 looks after 30 over a fast network", n)
	}
}
