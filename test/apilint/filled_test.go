// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/lighterage/lighterage"
	apiPackage = module + "/api/v1alpha1"
)

// TestStatusFieldsAreFilled: no field of a status is there that nothing in controllers gives a value. There is no list
// of exceptions: a field that this names is to be filled or to be removed. It looks at each type once, so that a field
// of a type that several kinds share passes when it is filled in one of them.
func TestStatusFieldsAreFilled(t *testing.T) {
	listed := goList(t, "./controllers/...")
	fileSet := token.NewFileSet()
	exported := map[string]string{}
	for _, p := range listed {
		exported[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(fileSet, "gc", func(path string) (io.ReadCloser, error) {
		if exported[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exported[path])
	})
	given := map[*types.Var]bool{}
	checked := 0
	for _, p := range listed {
		if !strings.HasPrefix(p.ImportPath, module+"/controllers/") {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fileSet, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := newInfo()
		if _, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fileSet, files, info); err != nil {
			t.Fatal(err)
		}
		filled(files, info, given)
		checked++
	}
	api, err := compiled.Import(apiPackage)
	if err != nil {
		t.Fatal(err)
	}
	if checked < 20 || len(given) < 500 {
		t.Fatalf("%d packages give %d fields a value; that is not all of the code", checked, len(given))
	}
	for _, field := range unfilled(api, given) {
		t.Errorf("nothing in controllers fills %s", field)
	}
}

func newInfo() *types.Info {
	return &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
}

type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// goList lists packages with what they depend on, compiled.
func goList(t *testing.T, patterns ...string) []listedPackage {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, patterns...)
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = filepath.Join("..", "..")
	command.Env = append(command.Environ(), "CGO_ENABLED=0") // as the programs are, of which much is compiled already
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var list []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestUnfilled(t *testing.T) {
	const source = `package p
type Part struct { Literal, Assigned, Cleared, Never string; Counted, Zero int; Address []string; Map map[string]string }
type Inner struct { Nothing bool; Positional int }
type KindStatus struct { Parts []*Part; Inner *Inner; Absent *Inner; Copy User }
type User struct { Never string }
type KindSpec struct { User User }
type Kind struct { Spec KindSpec; Status KindStatus }
type Other struct { Alone string }
func take(*[]string) {}
func fill(k *Kind) {
	p := &Part{Literal: "x", Zero: 0}
	p.Assigned, p.Cleared = "y", ""
	p.Counted++
	take(&p.Address)
	p.Map["a"] = "b"
	k.Status.Parts = []*Part{p}
	k.Status.Inner = &Inner{false, 1}
	k.Status.Absent = nil
	k.Status.Copy = k.Spec.User
}`
	fileSet := token.NewFileSet()
	file, err := parser.ParseFile(fileSet, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info, given := newInfo(), map[*types.Var]bool{}
	p, err := (&types.Config{}).Check("p", fileSet, []*ast.File{file}, info)
	if err != nil {
		t.Fatal(err)
	}
	filled([]*ast.File{file}, info, given)
	want := []string{
		"Inner.Nothing, for example Kind.Status.Inner.Nothing", "KindStatus.Absent, for example Kind.Status.Absent",
		"Part.Cleared, for example Kind.Status.Parts[].Cleared", "Part.Never, for example Kind.Status.Parts[].Never",
		"Part.Zero, for example Kind.Status.Parts[].Zero",
	}
	if got := unfilled(p, given); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
