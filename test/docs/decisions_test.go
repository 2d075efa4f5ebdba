// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecisionsAreListed holds docs/decisions/README.md against the decisions beside it: each has a number of its own
// and one row in the index, with its title.
func TestDecisionsAreListed(t *testing.T) {
	directory := filepath.Join(root, "docs/decisions")
	index, err := os.ReadFile(filepath.Join(directory, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	row := regexp.MustCompile(`(?m)^\| \[(\d{3})\]\(([^)]+)\) \| (.*?) \|`)
	for _, match := range row.FindAllStringSubmatch(string(index), -1) {
		if !strings.HasPrefix(match[2], match[1]+"-") {
			t.Errorf("the index links %s to %s", match[1], match[2])
		}
		rows[match[2]] = append(rows[match[2]], match[3])
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^(\d{3})-[a-z0-9-]+\.md$`)
	title := regexp.MustCompile(`^# (\d{3}):? (.+)\n`)
	files := map[string]string{}
	for _, entry := range entries {
		if entry.Name() == "README.md" {
			continue
		}
		number := name.FindStringSubmatch(entry.Name())
		if number == nil {
			t.Errorf("docs/decisions/%s: name it NNN-title.md", entry.Name())
			continue
		}
		if other := files[number[1]]; other != "" {
			t.Errorf("%s and %s have the same number; take the next free one", other, entry.Name())
		}
		files[number[1]] = entry.Name()
		text, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		heading := title.FindStringSubmatch(string(text))
		switch listed := rows[entry.Name()]; {
		case len(heading) == 0 || heading[1] != number[1]:
			t.Errorf("docs/decisions/%s does not begin with \"# %s Title\"", entry.Name(), number[1])
		case len(listed) != 1:
			t.Errorf("docs/decisions/README.md has %d rows for %s, want 1", len(listed), entry.Name())
		case listed[0] != heading[2]:
			t.Errorf("docs/decisions/README.md calls %s %q, its title is %q", entry.Name(), listed[0], heading[2])
		}
		delete(rows, entry.Name())
	}
	for file := range rows {
		t.Errorf("docs/decisions/README.md lists %s, which does not exist", file)
	}
	if len(files) < 50 {
		t.Errorf("found only %d decisions", len(files))
	}
}
