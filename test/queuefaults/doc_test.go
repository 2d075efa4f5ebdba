// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queuefaults_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsAreThere: every test that the package's comment names exists.
func TestNamedTestsAreThere(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(comment), "# What is broken where")
	named := regexp.MustCompile(`(?:([\w/-]+):)?\b(Test[A-Z]\w+)`).FindAllStringSubmatch(list, -1)
	const least = 40
	if len(named) < least {
		t.Fatalf("%d tests are named", len(named))
	}
	sources := make(map[string]string)
	for _, name := range named {
		directory, test := ".", name[2]
		if name[1] != "" {
			directory = filepath.Join("..", "..", name[1])
		}
		if sources[directory] == "" {
			sources[directory] = testsOf(t, directory)
		}
		if !strings.Contains(sources[directory], "\nfunc "+test+"(") {
			t.Errorf("there is no %s in %s", test, directory)
		}
	}
}

// testsOf returns the sources of a package's tests.
func testsOf(t *testing.T, directory string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}
