// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThreatModel holds every test that the threat model names as a proof against the tests that there are, and against
// what make test-security runs.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/operations/threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("found only %d tests in the threat model", len(named))
	}
	there := declared(t)
	script := filepath.Join(root, "hack/security-tests.sh")
	if _, err := os.ReadFile(script); err != nil { // go test asks again when a file that was read has changed
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), script).Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	arguments := strings.Fields(string(out))
	if len(arguments) < 3 || arguments[0] != "-run" {
		t.Fatalf("make test-security runs %q", arguments)
	}
	runs := regexp.MustCompile(arguments[1])
	inPackage := func(directory string) bool {
		directory = strings.TrimPrefix(directory, root+"/")
		return directory == "test/security" || slices.Contains(arguments[2:], "./"+directory)
	}
	for _, match := range named {
		if !runs.MatchString(match[1]) || !slices.ContainsFunc(there[match[1]], inPackage) {
			t.Errorf("make test-security does not run %s of %v", match[1], there[match[1]])
		}
	}
}

// TestFaults holds every test that the page about tests names against those that there are.
func TestFaults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/development/tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Errorf("found only %d tests", len(named))
	}
	there := declared(t)
	for _, match := range named {
		if len(there[match[1]]) == 0 {
			t.Errorf("there is no %s", match[1])
		}
	}
}

// declared are the directories of tests, by the names of these.
func declared(t *testing.T) map[string][]string {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	there := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range function.FindAllStringSubmatch(string(code), -1) {
			there[match[1]] = append(there[match[1]], filepath.ToSlash(filepath.Dir(path)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
