// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"testing"
	"time"
)

// TestRateAfterSilence: what ends a silence is part of the rate, also when nobody looked meanwhile.
func TestRateAfterSilence(t *testing.T) {
	s := newStatus()
	long := time.Now().Add(-time.Hour)
	s.rate = rate{before: mark{at: long}, since: mark{at: long}}
	s.now.InDoubt = 900
	s.stored(900, 900, 1, 1, 1, 0)
	if got := s.report(time.Now()).GetMilliMessagesPerSecond(); got == 0 {
		t.Error("900 messages were stored, and the rate is 0")
	}
}
