// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
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
		{"reasonsofblocks.go", "Compression", sentences, 20},
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

// TestEveryReasonIsDocumented: reasons.txt has what the API says of each reason of conditions.
func TestEveryReasonIsDocumented(t *testing.T) {
	var lines []string
	for _, name := range []string{
		"conditions.go", "conditions_cluster.go", "peerreasons.go", "statementreasons.go",
	} {
		lines = append(lines, reasonsIn(t, "../../api/v1alpha1/"+name)...)
	}
	slices.Sort(lines)
	if len(lines) < 100 {
		t.Fatalf("found %d reasons: the search is broken", len(lines))
	}
	want := strings.Join(lines, "")
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile("reasons.txt", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if documented != want {
		t.Error("reasons.txt differs from the API; go test ./controllers/explain -update writes it again")
	}
}

// reasonsIn are the reasons of a file, and what it says of them.
func reasonsIn(t *testing.T, path string) (lines []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		literal, _ := spec.Values[0].(*ast.BasicLit)
		reason, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		_, meaning, found := strings.Cut(strings.Join(strings.Fields(spec.Doc.Text()), " "), ": ")
		if !found {
			t.Errorf("%s says nothing", spec.Names[0].Name)
		}
		lines = append(lines, reason+": "+meaning+"\n")
		return true
	})
	return lines
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
