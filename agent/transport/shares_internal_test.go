// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"testing"
	"time"
)

// TestAdmission: who connects again and again is admitted once a second, others are not affected, and addresses are
// forgotten.
func TestAdmission(t *testing.T) {
	now := time.Unix(1e9, 0)
	a := &admission{each: 2, of: map[string]*address{}}
	reconnects := func(host string) (admitted int) {
		for range 100 {
			if a.take(host, now) {
				a.release(host)
				admitted++
			}
		}
		return admitted
	}
	if got := reconnects("a"); got != handshakes {
		t.Errorf("%d at once", got)
	}
	now = now.Add(3 * handshakeEvery)
	if got := reconnects("a"); got != 3 {
		t.Errorf("%d after three seconds", got)
	}
	first, second, third := a.take("b", now), a.take("b", now), a.take("b", now)
	if !first || !second || third {
		t.Error("another address has not its two connections")
	}
	for i := range 2 * maxAddresses {
		if host := fmt.Sprint(i); a.take(host, now) {
			a.release(host)
		}
	}
	if len(a.of) > maxAddresses {
		t.Errorf("%d addresses", len(a.of))
	}
	now = now.Add(time.Minute)
	if !a.take("c", now) || len(a.of) != 2 {
		t.Errorf("%d addresses after a minute", len(a.of))
	}
}
