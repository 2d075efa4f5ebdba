// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

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

// field is one field of a struct of the API.
type field struct {
	goName   string
	jsonName string
	options  []string // of the JSON tag: omitempty, omitzero, inline
	typ      string   // as it is written in Go: []string, *metav1.Time
	doc      string
	markers  []string // lines of the comment that start with +, without it
	embedded bool
}

// typeDecl is one type of the API.
type typeDecl struct {
	name    string
	under   string // what it is declared as; struct for structs
	doc     string
	markers []string
	fields  []field
	consts  []string // values of its constants
}

// parseDir reads the types of the package in dir, tests and generated files left out.
func parseDir(dir string) (map[string]*typeDecl, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", dir, err)
	}
	types := map[string]*typeDecl{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the types: %w", err)
		}
		if err := parseFile(types, name, source); err != nil {
			return nil, err
		}
	}
	return types, nil
}

func parseFile(types map[string]*typeDecl, name string, source []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing the types: %w", err)
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			switch spec := s.(type) {
			case *ast.TypeSpec:
				t, err := parseType(decl, spec)
				if err != nil {
					return fmt.Errorf("%s: type %s: %w", name, spec.Name.Name, err)
				}
				if known, ok := types[t.name]; ok {
					t.consts = known.consts
				}
				types[t.name] = t
			case *ast.ValueSpec:
				addConstants(types, spec)
			}
		}
	}
	return nil
}

func addConstants(types map[string]*typeDecl, spec *ast.ValueSpec) {
	ident, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	t, ok := types[ident.Name]
	if !ok {
		t = &typeDecl{name: ident.Name}
		types[ident.Name] = t
	}
	for _, v := range spec.Values {
		if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				t.consts = append(t.consts, value)
			}
		}
	}
}

func parseType(decl *ast.GenDecl, spec *ast.TypeSpec) (*typeDecl, error) {
	comment := spec.Doc
	if comment == nil {
		comment = decl.Doc
	}
	t := &typeDecl{name: spec.Name.Name}
	t.doc, t.markers = splitComment(comment)
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		t.under = typeString(spec.Type)
		return t, nil
	}
	t.under = "struct"
	for _, f := range body.Fields.List {
		parsed := field{typ: typeString(f.Type), embedded: len(f.Names) == 0}
		parsed.doc, parsed.markers = splitComment(f.Doc)
		if f.Tag != nil {
			tag, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return nil, fmt.Errorf("tag %s: %w", f.Tag.Value, err)
			}
			parts := strings.Split(reflect.StructTag(tag).Get("json"), ",")
			parsed.jsonName, parsed.options = parts[0], parts[1:]
		}
		names := []string{parsed.typ[strings.LastIndex(parsed.typ, ".")+1:]}
		if !parsed.embedded {
			names = nil
			for _, n := range f.Names {
				names = append(names, n.Name)
			}
		}
		for _, n := range names {
			parsed.goName = n
			t.fields = append(t.fields, parsed)
		}
	}
	return t, nil
}

// splitComment parts what people read from markers.
func splitComment(group *ast.CommentGroup) (string, []string) {
	if group == nil {
		return "", nil
	}
	var doc, markers []string
	for _, c := range group.List {
		line := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		if marker, ok := strings.CutPrefix(line, "+"); ok {
			markers = append(markers, marker)
		} else {
			doc = append(doc, line)
		}
	}
	return strings.TrimSpace(strings.Join(doc, "\n")), markers
}

func typeString(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return typeString(x.X) + "." + x.Sel.Name
	case *ast.StarExpr:
		return "*" + typeString(x.X)
	case *ast.ArrayType:
		return "[]" + typeString(x.Elt)
	case *ast.MapType:
		return "map[" + typeString(x.Key) + "]" + typeString(x.Value)
	case *ast.InterfaceType:
		return "interface{}"
	default:
		return fmt.Sprintf("%T", e)
	}
}

// has tells whether one of names is a marker, whatever its value.
func has(markers []string, names ...string) bool {
	return slices.ContainsFunc(markers, func(m string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			rest, ok := strings.CutPrefix(m, n)
			return ok && (rest == "" || rest[0] == '=' || rest[0] == ':')
		})
	})
}

// value of the marker name, or empty.
func value(markers []string, name string) string {
	for _, m := range markers {
		if v, ok := strings.CutPrefix(m, name+"="); ok {
			return v
		}
	}
	return ""
}
