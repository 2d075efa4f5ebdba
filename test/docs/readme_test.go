// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// TestChangeTable holds every path in the README's table against the tree.
func TestChangeTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## To change X, edit Y\n")
	if !found {
		t.Fatal("the README must end with the section \"To change X, edit Y\"")
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
			if strings.HasPrefix(match[1], "make ") {
				checkTarget(t, strings.TrimPrefix(match[1], "make "))
				continue
			}
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s: to change%sedit %s: there is no such path", strings.TrimSpace(cells[1]), cells[1], match[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("found only %d rows in the table", rows)
	}
}

// TestLinks holds every relative link of the documents against the tree.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	code := regexp.MustCompile("`[^`\n]*`")
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".cluster" || entry.Name() == "bin" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Error("found no links at all")
	}
}

func checkTarget(t *testing.T, target string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(text) {
		t.Errorf("the README speaks of make %s, the Makefile has no such target", target)
	}
}
