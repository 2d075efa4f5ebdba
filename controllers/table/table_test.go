// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"testing"

	"github.com/lighterage/lighterage/controllers/table"
)

func TestText(t *testing.T) {
	var rows table.Rows
	if got := rows.Text("  "); got != "" {
		t.Errorf("no rows: %q", got)
	}
	rows.Add("NAME", "SIZE", "NOTE")
	rows.Add("a", "1", "")
	rows.Add("longer\x1b[2J", "2", "two\nlines\tand a tab")
	rows.Add("é", "3")
	want := "  NAME        SIZE  NOTE\n  a           1\n  longer [2J  2     two lines and a tab\n  é           3\n"
	if got := rows.Text("  "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 5 * 1024 * 1024 * 1024: "5.00 GiB", 1 << 50: "1.00 PiB",
		1 << 60: "1024.00 PiB",
	} {
		if got := table.Bytes(n); got != want {
			t.Errorf("%g bytes: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0.0 kB/s", 999e3: "999.0 kB/s", 12.5e6: "12.5 MB/s", 1.25e9: "1.25 GB/s"} {
		if got := table.Rate(n); got != want {
			t.Errorf("%g a second: %s, want %s", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"  short":                "  short",
		"  one two three four":   "  one two\n    three\n    four",
		"ok    a":                "ok    a",
		"exactly tenX x":         "exactly\n    tenX x",
		"averyverylongword next": "averyverylongword\n    next",
		"éééé éééé é":            "éééé éééé\n    é",
		"a\nb\x1b[2J c":          "a b [2J c",
	} {
		if got := table.Wrap(text, "    ", 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := table.Wrap(text, "    ", 0); got != table.Printable(text) {
			t.Errorf("%q without a width: %q", text, got)
		}
	}
}
