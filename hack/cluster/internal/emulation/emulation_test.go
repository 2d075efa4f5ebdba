// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package emulation

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEntry: programs for s390x match, others do not.
func TestEntry(t *testing.T) {
	fields := strings.Split(entry("/usr/bin/qemu"), ":")
	if len(fields) != 8 || fields[1] != handler || fields[2] != "M" || fields[6] != "/usr/bin/qemu" || fields[7] != "F" {
		t.Fatalf("%q", fields)
	}
	unquote := func(s string) string {
		t.Helper()
		text, err := strconv.Unquote(`"` + s + `"`)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	magic, mask := unquote(fields[4]), unquote(fields[5])
	if len(magic) != 20 || len(mask) != len(magic) {
		t.Fatalf("%d bytes and a mask of %d", len(magic), len(mask))
	}
	header := func(class, data, abi, kind, machine byte) string {
		return "\x7fELF" + string([]byte{class, data, 1, abi, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, machine})
	}
	for name, test := range map[string]struct {
		header string
		want   bool
	}{
		"static":                   {header(2, 2, 0, 2, 22), true},
		"of the GNU ABI":           {header(2, 2, 3, 2, 22), true},
		"position-independent":     {header(2, 2, 0, 3, 22), true},
		"31 bits":                  {header(1, 2, 0, 2, 22), false},
		"another big-endian":       {header(2, 2, 0, 2, 21), false},
		"little-endian":            {header(2, 1, 0, 2, 22), false},
		"not a program but a part": {header(2, 2, 0, 1, 22), false},
	} {
		matches := true
		for i := range len(magic) {
			matches = matches && test.header[i]&mask[i] == magic[i]&mask[i]
		}
		if matches != test.want {
			t.Errorf("%s: %v", name, matches)
		}
	}
}

// TestRemoveNothing: what was never registered is no error to remove.
func TestRemoveNothing(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	if err := Remove(mark); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it left a mark")
	}
}
