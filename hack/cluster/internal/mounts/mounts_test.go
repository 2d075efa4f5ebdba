// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const mountinfo = `27 1 254:0 / / rw - ext4 /dev/vda rw
30 27 0:30 / /var/lib/ltg/east/volumes/pvc-1 rw - tmpfs none rw
31 27 0:31 / /var/lib/ltg-other rw - tmpfs none rw
32 27 0:32 / /var/lib/ltg/with\040blank rw - tmpfs none rw
33 32 0:33 / /var/lib/ltg/with\040blank/inner rw - tmpfs none rw
damaged
`
	want := []string{"/var/lib/ltg/east/volumes/pvc-1", "/var/lib/ltg/with blank", "/var/lib/ltg/with blank/inner"}
	if got := parse(bufio.NewScanner(strings.NewReader(mountinfo)), "/var/lib/ltg"); !slices.Equal(got, want) {
		t.Errorf("parse = %q, want %q", got, want)
	}
}
