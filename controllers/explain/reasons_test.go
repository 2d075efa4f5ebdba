// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReasonHasASentence reads the constants of the API, so that a new one cannot be forgotten.
func TestEveryReasonHasASentence(t *testing.T) {
	for _, c := range []struct {
		file, prefix string
		of           map[string]string
		least        int
	}{
		{"conditions.go", "Compression", sentences, 20},
		{"placement_types.go", "PlacementReason", placementSentences, 9},
	} {
		reasons := constants(t, "../../api/v1alpha1/"+c.file, c.prefix)
		if len(reasons) < c.least {
			t.Fatalf("%s: found %d constants %s...: the search is broken", c.file, len(reasons), c.prefix)
		}
		for _, reason := range reasons {
			if c.of[reason] == "" {
				t.Errorf("%s has no sentence", reason)
			}
		}
	}
	if s := sentence(sentences, "FromTheFuture"); !strings.Contains(s, "does not know") {
		t.Error(s)
	}
}

// constants are the values of the string constants of a file whose names begin so.
func constants(t *testing.T, path, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) == 0 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}
