// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1_test

import (
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestQueueRoom: the least volumes have room for messages, a larger one for more, and what is kept of it is bounded.
func TestQueueRoom(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	for members, least := range map[int]int64{1: wirev1.QueueLeastVolume, 3: wirev1.QueueLeastVolumeOfThree} {
		if room := wirev1.QueueRoom(least, members); room < 12*mib {
			t.Errorf("of %d bytes with %d members %d are for messages", least, members, room)
		}
		before := int64(0)
		for volume := least; volume < 100*gib; volume += volume / 7 {
			room := wirev1.QueueRoom(volume, members)
			if room <= before || room >= volume {
				t.Errorf("of %d bytes with %d members %d are for messages, and of less %d", volume, members, room, before)
			}
			before = room
			// A block that has partly left, and one that a limit has not followed yet, do not make a volume short.
			if left := wirev1.QueueReserve(volume) - wirev1.QueueShort(volume); left < 16*mib {
				t.Errorf("of %d bytes %d are kept and not refused by", volume, left)
			}
		}
		if beside := wirev1.QueueBeside(1000*gib, members); beside != 560*mib {
			t.Errorf("of much %d bytes are kept", beside)
		}
	}
	if room := wirev1.QueueRoom(wirev1.QueueLeastVolume, 3); room > mib {
		t.Errorf("the least volume of one has room for %d bytes of three", room)
	}
}
