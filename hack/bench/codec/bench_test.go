// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
)

// TestMeasure makes all measurements, too short to mean anything.
func TestMeasure(t *testing.T) {
	out := t.TempDir()
	b := &bench{
		Run:     &harness.Run{Name: "codec", Quick: true, Out: out},
		extent:  extent{bytes: 32 << 10, rounds: 1, work: time.Millisecond},
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
	r := newReport(b, found).whole(t.Context())
	if err := b.Publish(t.Context(), r); err != nil {
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
	if len(r.Targets) == 0 {
		t.Error("no target was judged")
	}
}
