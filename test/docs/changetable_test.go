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

// TestChangeTable holds every path and make target in the table of docs/development/layout.md against the tree.
func TestChangeTable(t *testing.T) {
	const page, heading = "docs/development/layout.md", "\n## To change X, edit Y\n"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), heading)
	if !found {
		t.Fatalf("%s lacks the section %q", page, strings.TrimSpace(heading))
	}
	table, _, _ = strings.Cut(table, "\n## ")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if target, ok := strings.CutPrefix(match[1], "make "); ok {
				if !strings.Contains(string(makefile), "\n"+target+":") {
					t.Errorf("%s: the Makefile has no target %s", page, target)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s: to change%sedit %s: there is no such path", page, cells[1], match[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("found only %d rows in the table of %s", rows, page)
	}
}
