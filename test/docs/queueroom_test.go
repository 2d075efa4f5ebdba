// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestQueueRoom: what the README and the API say of the room on a Queue's volumes is what members and the manager go by.
func TestQueueRoom(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	beside := func(volume int64, members int) string {
		bytes := wirev1.QueueBeside(volume, members)
		if bytes%mib != 0 {
			t.Errorf("of %d bytes with %d members %d are kept", volume, members, bytes)
		}
		return fmt.Sprintf("%dMi", bytes/mib)
	}
	const formula = "40Mi and two 32nds of a volume of up to 1Gi"
	for _, volume := range []int64{wirev1.QueueLeastVolume, gib, gib + 32*mib, 10 * gib} {
		small, large := 40*mib+volume/16, 72*mib+volume/32
		if one, three := wirev1.QueueBeside(volume, 1), wirev1.QueueBeside(volume, 3); one != min(small, large) || three != large {
			t.Errorf("of %d bytes one member keeps %d, and each of three %d", volume, one, three)
		}
	}
	one, three := fmt.Sprintf("%dMi", wirev1.QueueLeastVolume/mib), fmt.Sprintf("%dMi", wirev1.QueueLeastVolumeOfThree/mib)
	for file, says := range map[string][]string{
		"README.md": {
			"Of 10Gi that is " + beside(10*gib, 1) + ", of 1Gi " + beside(gib, 1) + ", of " + one + ", the least of one member, " + beside(wirev1.QueueLeastVolume, 1),
			"and of " + three + ", the least of each of three, " + beside(wirev1.QueueLeastVolumeOfThree, 3),
			"never more than " + beside(1000*gib, 1), formula,
			fmt.Sprintf("8Mi and a 96th of it, at most %dMi", (wirev1.QueueShort(1000*gib)+mib-1)/mib),
		},
		"api/v1alpha1/queue_types.go": {
			"compareTo(quantity('" + one + "'))", "storage.size must be at least " + one + " with type File, since",
			"self.replicas == 1 || quantity(string(self.storage.size)).compareTo(quantity('" + three + "'))", "storage.size must be at least " + three + " with type File and replicas 3",
			"never more than " + beside(1000*gib, 3), formula,
		},
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		// Comments and paragraphs are broken anywhere.
		flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n\t// ", " ")), " ")
		for _, want := range says {
			if !strings.Contains(flat, want) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
	}
}
