// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

import "testing"

func TestVersions(t *testing.T) {
	if spoken.newest-spoken.oldest > 1 {
		t.Errorf("versions %d to %d are spoken: a release speaks its own and the one before", spoken.oldest, spoken.newest)
	}
	one, two := versions{oldest: 3, newest: 3}, versions{oldest: 2, newest: 3}
	for _, c := range []struct {
		ours   versions
		theirs uint32
		common uint32
		speaks bool
	}{
		{one, 0, 0, false}, {one, 2, 0, false}, {one, 3, 3, true}, {one, 4, 3, false}, {one, 5, 0, false},
		{two, 1, 0, false}, {two, 2, 2, true}, {two, 3, 3, true}, {two, 4, 3, false}, {two, 5, 0, false},
	} {
		common, ok := c.ours.inCommon(c.theirs)
		if common != c.common || ok != (c.common != 0) {
			t.Errorf("%+v with %d: %d, %v", c.ours, c.theirs, common, ok)
		}
		if got := c.ours.speaks(c.theirs); got != c.speaks {
			t.Errorf("%+v speaks %d: %v", c.ours, c.theirs, got)
		}
	}
}
