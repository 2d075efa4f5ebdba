// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package owned_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lighterage/lighterage/controllers/owned"
)

func uid(i int) types.UID { return types.UID(fmt.Sprint(i)) }

// entered is how many of n objects that are there may roll out.
func entered(t *owned.Turnstile, n int, now time.Time) (in []types.UID) {
	for i := range n {
		if t.Enter(uid(i), now) {
			in = append(in, uid(i))
		}
	}
	return in
}

func TestTurnstile(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for n, want := range map[int]int{1: 1, 3: 3, 4: 3, 24: 3, 31: 3, 32: 4, 200: 25} {
		var turnstile owned.Turnstile
		for i := range n {
			turnstile.Leave(uid(i))
		}
		in := entered(&turnstile, n, start)
		if len(in) != want {
			t.Errorf("%d of %d roll out at a time, want %d", len(in), n, want)
		}
		if again := entered(&turnstile, n, start.Add(time.Minute)); len(again) != want {
			t.Errorf("%d of %d: who is in does not stay: %d", want, n, len(again))
		}
		rounds := 0
		for left := n; left > 0 && rounds <= n; rounds++ {
			in = entered(&turnstile, n, start.Add(time.Minute))
			for _, done := range in {
				turnstile.Leave(done)
			}
			left -= len(in)
		}
		if atLeast := (n + want - 1) / want; rounds != atLeast {
			t.Errorf("%d objects took %d rounds, want %d", n, rounds, atLeast)
		}
	}
}

// Those that never become ready, and those that are deleted, keep nobody waiting for ever.
func TestTurnstileGoesOn(t *testing.T) {
	var turnstile owned.Turnstile
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	entered(&turnstile, 3, start)
	if turnstile.Enter(uid(7), start.Add(9*time.Minute)) {
		t.Error("a fourth one rolls out")
	}
	turnstile.Forget(uid(2))
	if !turnstile.Enter(uid(7), start.Add(9*time.Minute)) {
		t.Error("it waits for one that is gone")
	}
	if !turnstile.Enter(uid(8), start.Add(10*time.Minute)) {
		t.Error("it waits for those that are stuck")
	}
}
