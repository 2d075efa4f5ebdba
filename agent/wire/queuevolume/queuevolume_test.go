// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queuevolume_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// TestForMessages: the least volumes have space for messages, a larger one for more, and what is kept of it is bounded.
func TestForMessages(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	for members, least := range map[int]int64{1: queuevolume.Least, 3: queuevolume.LeastOfThree} {
		if free := queuevolume.ForMessages(least, members); free < 12*mib {
			t.Errorf("of %d bytes with %d members %d are for messages", least, members, free)
		}
		before := int64(0)
		for volume := least; volume < 100*gib; volume += volume / 7 {
			free := queuevolume.ForMessages(volume, members)
			if free <= before || free >= volume {
				t.Errorf("of %d bytes with %d members %d are for messages, and of less %d", volume, members, free, before)
			}
			before = free
			// A block that has partly left, and one that is being written, do not make a volume short.
			if left := queuevolume.LeaseBytes + queuevolume.Reserve(volume) - queuevolume.Short(volume); left < 24*mib {
				t.Errorf("of %d bytes %d are kept and not rejected by", volume, left)
			}
		}
		if beside := queuevolume.Beside(1000*gib, members); beside != 560*mib {
			t.Errorf("of much %d bytes are kept", beside)
		}
	}
	if free := queuevolume.ForMessages(queuevolume.Least, 3); free > mib {
		t.Errorf("the least volume of one has space for %d bytes of three", free)
	}
}
