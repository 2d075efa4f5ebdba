// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for path, want := range map[string]string{
		"books/2026/märz.txt":      "books/2026/märz.txt",
		"帳簿":                       "帳簿",
		"with a blank":             "with a blank",
		"a\x1b[2Jb":                `"a\x1b[2Jb"`,
		"a\nFAKE: line":            `"a\nFAKE: line"`,
		"a\r\tb\x00\x7f":           `"a\r\tb\x00\x7f"`,
		"invoice\u202efdp.exe":     `"invoice\u202efdp.exe"`,
		"a\u2066b\u2069\u200f":     `"a\u2066b\u2069\u200f"`,
		"C1: \u009b2J":             `"C1: \u009b2J"`,
		"invisible\u200b\ufeff":    `"invisible\u200b\ufeff"`,
		"lines\u2028and\u2029more": `"lines\u2028and\u2029more"`,
		"not UTF-8: \xff\xfe":      `"not UTF-8: \xff\xfe"`,
	} {
		if got := printable(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{
		"a", "a\x1b[2J", "\u202e", "\xff", strings.Repeat("\x00", 300), strings.Repeat("ü", 300),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		shown := printable(path)
		if len(shown) > 4*maxExample+8 || !utf8.ValidString(shown) ||
			strings.ContainsFunc(shown, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Fatalf("%q is shown as %q", path, shown)
		}
	})
}
