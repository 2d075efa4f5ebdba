// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package arch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	header   = "// Copyright The Lighterage Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"
	maxLines = 600
)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestFiles holds every Go file that people write to the licence header and to a length that can be read.
func TestFiles(t *testing.T) {
	files := goFiles(t)
	if len(files) < 20 {
		t.Fatalf("found %d files: the walk is broken", len(files))
	}
	for _, path := range files {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if generated.Match(content) {
			continue
		}
		if !strings.HasPrefix(string(content), header) {
			t.Errorf("%s does not start with the licence header; copy the first three lines of another file", path)
		}
		if n := bytes.Count(content, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines; split what is longer than %d", path, n, maxLines)
		}
	}
}

// TestScriptHeaders holds scripts and makefiles to the same header.
func TestScriptHeaders(t *testing.T) {
	scripts := []string{"Makefile", ".ci/run"}
	for _, pattern := range []string{"hack/*.sh", "hack/*/*.sh"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			scripts = append(scripts, rel)
		}
	}
	want := strings.ReplaceAll(header, "// ", "# ")
	for _, path := range scripts {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), strings.TrimSpace(want)) {
			t.Errorf("%s lacks the licence header", path)
		}
	}
}

// TestPackageNames refuses names that say nothing of what a package holds.
func TestPackageNames(t *testing.T) {
	banned := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}
	for dir := range readPackages(t) {
		if slices.Contains(banned, filepath.Base(dir)) {
			t.Errorf("package %s: name it for what it holds", dir)
		}
	}
}
