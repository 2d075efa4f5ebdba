// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// api is what the Go sources of the API say and the CRDs do not: the order of fields, what enumerated values mean, and
// which types are those of Kubernetes.
type api struct {
	structs map[string]*ast.StructType
	// values of enumerated types, in their order.
	values map[string][]value
	// blocks of string constants without a type, in the order of files and lines.
	blocks []block
}

// value is a constant with its comment, without the constant's name.
type value struct {
	name, value, doc string
	// kinds that the comment has in parentheses behind the name.
	kinds []string
}

// block is a const declaration.
type block struct {
	file, doc string
	values    []value
}

func readAPI(dir string) (*api, error) {
	a := &api{structs: map[string]*ast.StructType{}, values: map[string][]value{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the API: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("reading the API: %w", err)
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				if err := a.read(name, general); err != nil {
					return nil, fmt.Errorf("reading %s: %w", name, err)
				}
			}
		}
	}
	return a, nil
}

func (a *api) read(file string, declaration *ast.GenDecl) error {
	b := block{file: file, doc: declaration.Doc.Text()}
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if s, ok := spec.Type.(*ast.StructType); ok {
				a.structs[spec.Name.Name] = s
			}
		case *ast.ValueSpec:
			if declaration.Tok != token.CONST {
				continue
			}
			v, ok, err := valueOf(spec, b.values)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if typed, ok := spec.Type.(*ast.Ident); ok {
				a.values[typed.Name] = append(a.values[typed.Name], v)
				continue
			}
			b.values = append(b.values, v)
		}
	}
	if len(b.values) > 0 {
		a.blocks = append(a.blocks, b)
	}
	return nil
}

// valueOf reads a string constant with a comment such as "ReasonServing (Queue): all members serve." One without a
// comment has that of the constant before.
func valueOf(spec *ast.ValueSpec, before []value) (value, bool, error) {
	if len(spec.Names) != 1 || len(spec.Values) != 1 {
		return value{}, false, nil
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return value{}, false, nil
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return value{}, false, fmt.Errorf("constant %s: %w", spec.Names[0].Name, err)
	}
	v := value{name: spec.Names[0].Name, value: text, doc: withoutName(spec.Doc.Text(), spec.Names[0].Name)}
	if rest, found := strings.CutPrefix(v.doc, "("); found {
		kinds, meaning, _ := strings.Cut(rest, "): ")
		v.kinds, v.doc = strings.Split(strings.Join(strings.Fields(kinds), " "), ", "), sentence(meaning)
	}
	if v.doc == "" && len(before) > 0 {
		v.doc = before[len(before)-1].doc
	}
	return v, true, nil
}

// withoutName takes the name with which comments of Go begin away, and a colon or "is" behind it.
func withoutName(doc, name string) string {
	doc = strings.TrimSpace(doc)
	rest, found := strings.CutPrefix(doc, name)
	if !found {
		// A comment of several constants: "A, B and C: why".
		if _, after, ok := strings.Cut(doc, ": "); ok && strings.Contains(strings.SplitN(doc, ": ", 2)[0], name) {
			return sentence(after)
		}
		return doc
	}
	rest = strings.TrimLeft(rest, ": ")
	rest = strings.TrimPrefix(rest, "is ")
	return sentence(rest)
}

// field of a struct as JSON has it.
type field struct {
	name string
	// goType is the name of a struct or an enumerated type of the API, empty for others.
	goType string
	// foreign is a type of another package, such as corev1.SecurityContext.
	foreign string
}

// fields of a struct of the API, in its order.
func (a *api) fields(goType string) ([]field, error) {
	s, ok := a.structs[goType]
	if !ok {
		return nil, fmt.Errorf("the API has no struct %s", goType)
	}
	var all []field
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("a tag of %s: %w", goType, err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" || name == "-" || name == "metadata" {
			continue
		}
		own, foreign := elementType(f.Type)
		all = append(all, field{name: name, goType: own, foreign: foreign})
	}
	return all, nil
}

// isField tells whether a dotted path ends in the name of a field.
func (a *api) isField(path string) bool {
	name := path[strings.LastIndex(path, ".")+1:]
	for goType := range a.structs {
		fields, err := a.fields(goType)
		if err == nil && slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			return true
		}
	}
	return false
}

// elementType is the named type below pointers, slices and maps.
func elementType(expression ast.Expr) (own, foreign string) {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return elementType(e.X)
	case *ast.ArrayType:
		return elementType(e.Elt)
	case *ast.MapType:
		return elementType(e.Value)
	case *ast.Ident:
		if ast.IsExported(e.Name) {
			return e.Name, ""
		}
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			return "", p.Name + "." + e.Sel.Name
		}
	}
	return "", ""
}
