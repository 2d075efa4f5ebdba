// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReasonIsExplained holds docs/operations/troubleshooting.md against the reasons of conditions: each has a
// row, and each row is about a reason.
func TestEveryReasonIsExplained(t *testing.T) {
	const page = "docs/operations/troubleshooting.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		explained[match[1]] = true
	}
	constants := conditionReasons(t)
	if len(constants) < 50 {
		t.Fatalf("found only %d reasons in the API", len(constants))
	}
	for value, name := range constants {
		if !explained[value] {
			t.Errorf("%s has no row for %s (constant %s): add what it means, what to check and what to do", page, value, name)
		}
	}
	for value := range explained {
		if constants[value] == "" {
			t.Errorf("%s has a row for %s, which is no reason of the API", page, value)
		}
	}
}

// conditionReasons maps the values of the untyped string constants of the API whose names begin with Reason or
// Compression to these names. Enumerations of the API are typed constants.
func conditionReasons(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "api/v1alpha1/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				noteReasons(t, found, spec)
			}
		}
	}
	return found
}

func noteReasons(t *testing.T, found map[string]string, spec ast.Spec) {
	t.Helper()
	constant, ok := spec.(*ast.ValueSpec)
	if !ok || constant.Type != nil {
		return
	}
	for i, name := range constant.Names {
		if !strings.HasPrefix(name.Name, "Reason") && !strings.HasPrefix(name.Name, "Compression") {
			continue
		}
		if i >= len(constant.Values) {
			t.Fatalf("constant %s has no value of its own", name.Name)
		}
		literal, ok := constant.Values[i].(*ast.BasicLit)
		if !ok {
			t.Fatalf("constant %s is no literal", name.Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatalf("constant %s: %v", name.Name, err)
		}
		found[value] = name.Name
	}
}
