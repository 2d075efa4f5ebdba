// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// What comments and patterns hold must not be taken for Markdown, or end a cell.
func TestCellsKeepTheirText(t *testing.T) {
	got := table([]string{"A", "B"}, [][]string{{code("a|b"), prose("a <b> | *c* [d](e)\nf\n\ng_h")}})
	want := "| A | B |\n|---|---|\n| `a\\|b` | a &lt;b&gt; \\| \\*c\\* \\[d\\](e) f<br>g\\_h |\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutName(t *testing.T) {
	for doc, want := range map[string]string{
		"ReasonReady: it is done.":          "It is done.",
		"ReasonReady is True when it is.":   "True when it is.",
		"ReasonReady keeps messages.":       "Keeps messages.",
		"A, ReasonReady and C: why it was.": "Why it was.",
		"Something else.":                   "Something else.",
		"ReasonReady (Queue): it is done.":  "(Queue): it is done.",
	} {
		if got := withoutName(doc, "ReasonReady"); got != want {
			t.Errorf("%q: got %q, want %q", doc, got, want)
		}
	}
}

func TestLimitsOf(t *testing.T) {
	number := func(n float64) *float64 { return &n }
	count := func(n int64) *int64 { return &n }
	items := &apiextensionsv1.JSONSchemaPropsOrArray{
		Schema: &schema{Type: "string", MinLength: count(1), MaxLength: count(63)},
	}
	for want, s := range map[string]schema{
		"":                                     {Type: "string"},
		"1 to 1,000,000.":                      {Minimum: number(1), Maximum: number(1e6)},
		"At least 1.":                          {Minimum: number(1)},
		"At most 4 characters.":                {MaxLength: count(4)},
		"1 to 8 elements, 1 to 63 characters.": {Items: items, MinItems: count(1), MaxItems: count(8)},
		"Matches `^(a\\|b)$`.":                 {Pattern: "^(a|b)$"},
	} {
		if got := limitsOf(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 255: "255 bytes", 4095: "4095 bytes", 16 << 10: "16 KiB", 44 << 20: "44 MiB", 10 << 30: "10 GiB",
		183296 << 8: "44.8 MiB",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1500 ms", 90 * time.Second: "90 s", 2 * time.Hour: "2 h", 72 * time.Hour: "3 d",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

// A constant is found however it is written down, and one that is gone is an error.
func TestConstants(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "limits")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	source := `package limits

import (
	"time"

	"example.com/missing"
)

const (
	plain   = 4 << 10
	patient = 2 * time.Minute
	foreign = missing.Value
)

type options struct{ wait time.Duration; size int }

var defaults = options{wait: 3 * time.Second, size: missing.Of(7)}

func (o *options) setDefaults() {
	set(&o.size, plain/2)
	for range []any{{&o.wait, time.Second}} {
	}
}

func capacity(size int) options {
	if size > 9 {
		return options{size: size}
	}
	return options{size: size - 1}
}
`
	if err := os.WriteFile(filepath.Join(dir, "limits.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newConstants(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]string{
		"limits.plain": "4096", "limits.patient": "120000000000", "limits.defaults.wait": "3000000000",
		"limits.defaults.size":            "7",
		"limits.options.setDefaults.size": "2048", "limits.options.setDefaults.wait": "1000000000",
	} {
		if m, err := c.one(reference); err != nil || m.text() != want {
			t.Errorf("%s: got %q and %v, want %q", reference, m.text(), err, want)
		}
	}
	if m, err := c.one("limits.patient"); err != nil || !m.duration {
		t.Errorf("a duration is taken for a number: %+v, %v", m, err)
	}
	for _, reference := range []string{
		"limits.gone", "limits.foreign", "limits.defaults.gone", "limits.capacity.size", "nowhere.plain", "limits",
	} {
		if m, err := c.one(reference); err == nil {
			t.Errorf("%s has the value %q", reference, m.text())
		}
	}
	all, err := c.find("limits.capacity.size")
	if err != nil || len(all) != 2 || all[0].text() != "size" || all[1].text() != "size - 1" {
		t.Errorf("got %+v and %v", all, err)
	}
}

// A metric that the sources have and no section registers is an error.
func TestEveryMetric(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"controllers", "agent"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(
		filepath.Join(root, "agent", "a.go"), []byte("package a\nconst name = \"lighterage_things_total\"\n"), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	if err := everyMetric(root, map[string]bool{"lighterage_things_total": true}); err != nil {
		t.Error(err)
	}
	if err := everyMetric(root, map[string]bool{}); err == nil {
		t.Error("a metric that is on no page is no error")
	}
}

func TestParseFlags(t *testing.T) {
	introduction, flags, err := parseFlags("Usage: agent MODE [flags]\n\nModes:\n  send   move\n\nFlags:\n  -dir " +
		"string\n    \tdirectory with\n    \ttwo lines (default \"/etc/x\")\n  -name string\n    \tname (default: " +
		"$NAME)\n  -v\tprint (more)\n")
	want := []programFlag{
		{name: "dir", kind: "string", fallback: "/etc/x", usage: "directory with two lines"},
		{name: "name", kind: "string", usage: "name (default: $NAME)"},
		{name: "v", kind: "boolean", usage: "print (more)"},
	}
	if err != nil || introduction != "Usage: agent MODE [flags]\n\nModes:\n  send   move" {
		t.Errorf("introduction %q, %v", introduction, err)
	}
	if difference := cmp.Diff(want, flags, cmp.AllowUnexported(programFlag{})); difference != "" {
		t.Error(difference)
	}
	if _, _, err := parseFlags("error: no such thing"); err == nil {
		t.Error("what has no flags is taken for a usage")
	}
}

// The commands that a usage lists are rendered below it, at any depth.
func TestCommands(t *testing.T) {
	usages := map[string]string{
		"": "Root.\n\nAvailable Commands:\n  completion  Shells\n  help        Help\n  queue       " +
			"Queues\n\nFlags:\n  -n, --namespace string   where",
		"queue":       "Queues.\n\nAvailable Commands:\n  get         Get\n  put         Put\n",
		"queue get":   "Get it.\n\nFlags:\n      --count int   how many",
		"queue put":   "Put it.",
		"queue empty": "not listed",
	}
	var b strings.Builder
	err := commands(&b, func(path ...string) (string, error) { return usages[strings.Join(path, " ")], nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		if strings.HasPrefix(line, "#") {
			headings = append(headings, line)
		}
	}
	if want := []string{
		"### completion", "### queue", "### queue get", "### queue put",
	}; !reflect.DeepEqual(headings, want) {
		t.Errorf("got %q, want %q", headings, want)
	}
	for _, once := range []string{"Root.", "Get it.", "Put it."} {
		if strings.Count(b.String(), once) != 1 {
			t.Errorf("%q is there %d times", once, strings.Count(b.String(), once))
		}
	}
}
