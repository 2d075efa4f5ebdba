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

// TestThreatModel holds every test that the threat model names as a proof against the tests that there are.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/operations/threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("found only %d tests in the threat model", len(named))
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	there := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range declared.FindAllStringSubmatch(string(code), -1) {
			there[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range named {
		if !there[match[1]] {
			t.Errorf("there is no %s", match[1])
		}
	}
}
