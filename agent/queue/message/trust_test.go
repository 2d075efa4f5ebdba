// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import "testing"

// TestTrustForEver: one in so many messages is looked at however many there are.
func TestTrustForEver(t *testing.T) {
	var trusting trust
	for range trustAfter {
		trusting.seen(100, 50)
	}
	looks := 0
	const messages = 2*trustMost + lookEvery
	for range messages {
		if trusting.looks(3000) {
			looks++
		}
		trusting.seen(100, 50)
	}
	if want := messages / lookEvery; looks < want-2 || looks > want+2 {
		t.Errorf("%d of %d messages are looked at", looks, messages)
	}
	if trusting.seen(3200, 3101); !trusting.looks(3000) {
		t.Error("a message that was not worth it changes nothing")
	}
}
