// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/test/corpus"
)

// TestMeasure makes all measurements, too short to mean anything.
func TestMeasure(t *testing.T) {
	out := t.TempDir()
	b := &bench{
		extent:  extent{bytes: 32 << 10, rounds: 1, least: 1, work: time.Millisecond, out: out, command: "make bench-codec"},
		log:     io.Discard,
		dir:     t.TempDir(),
		engines: measured(t.Context()),
	}
	for _, name := range []string{"xml", "random"} {
		c, ok := corpus.ByName(name)
		if !ok {
			t.Fatalf("no corpus is called %s", name)
		}
		d := data{
			name: name, about: c.About, ordinary: c.Ordinary, plain: c.Generate(b.bytes), path: filepath.Join(b.dir, name),
		}
		if err := os.WriteFile(d.path, d.plain, 0o600); err != nil {
			t.Fatal(err)
		}
		b.data = append(b.data, d)
	}
	found, err := b.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(b, found, time.Second)
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "codec.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range b.settings(3) {
		if !strings.Contains(string(text), "**"+s.name()+"**") {
			t.Errorf("the report lacks %s", s.name())
		}
	}
	for _, wrong := range []string{"NaN", "<no value>", "%!"} {
		if strings.Contains(string(text), wrong) {
			t.Errorf("the report has %q", wrong)
		}
	}
	if len(r.targets) == 0 {
		t.Error("no target was judged")
	}
}
