// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// constants finds the values of constants in the packages of the module, exported or not. It checks types from the
// sources, so it needs no compiled packages. Of other modules it knows nothing: their packages are empty, and what
// depends on them has no value.
type constants struct {
	root     string
	fset     *token.FileSet
	packages map[string]*source
	standard types.Importer
}

// source is a package of this module after its types were checked.
type source struct {
	files []*ast.File
	types *types.Package
	info  *types.Info
}

func newConstants(ctx context.Context, root string) (*constants, error) {
	// This program may have been built with -trimpath, and not know where the standard library is.
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the standard library: %w", err)
	}
	build.Default.GOROOT, build.Default.CgoEnabled = strings.TrimSpace(string(goroot)), false
	fset := token.NewFileSet()
	standard := importer.ForCompiler(fset, "source", nil)
	return &constants{root: root, fset: fset, packages: map[string]*source{}, standard: standard}, nil
}

// standardPackages are those whose constants ours are made of.
var standardPackages = []string{"math", "time", "unicode/utf8"}

// Import is of types.Importer.
func (c *constants) Import(name string) (*types.Package, error) {
	if dir, ours := strings.CutPrefix(name, module+"/"); ours {
		s, err := c.load(dir)
		if err != nil {
			return nil, err
		}
		return s.types, nil
	}
	if slices.Contains(standardPackages, name) {
		p, err := c.standard.Import(name)
		if err != nil {
			return nil, fmt.Errorf("importing %s: %w", name, err)
		}
		return p, nil
	}
	empty := types.NewPackage(name, path.Base(name))
	empty.MarkComplete()
	return empty, nil
}

func (c *constants) load(dir string) (*source, error) {
	if s, ok := c.packages[dir]; ok {
		return s, nil
	}
	target := build.Default
	target.GOOS, target.GOARCH = "linux", "amd64"
	found, err := target.ImportDir(filepath.Join(c.root, dir), 0)
	if err != nil {
		return nil, fmt.Errorf("finding package %s: %w", dir, err)
	}
	s := &source{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(c.root, dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading package %s: %w", dir, err)
		}
		s.files = append(s.files, file)
	}
	// Errors are about what is missing of other modules.
	config := types.Config{Importer: c, Error: func(error) {}}
	s.types, _ = config.Check(module+"/"+dir, c.fset, s.files, s.info)
	c.packages[dir] = s
	return s, nil
}

// measure is a constant value with the type that says its unit.
type measure struct {
	value    constant.Value
	duration bool
	// source is the expression where that is no constant.
	source string
}

func (m measure) text() string {
	if m.value == nil {
		return m.source
	}
	return m.value.ExactString()
}

// one returns the value of a reference that has a single one.
func (c *constants) one(reference string) (measure, error) {
	values, err := c.find(reference)
	if err != nil {
		return measure{}, err
	}
	if len(values) > 1 {
		return measure{}, fmt.Errorf("%s has several values", reference)
	}
	return values[0], nil
}

// find returns the values of a reference: DIRECTORY.NAME for a constant; DIRECTORY.NAME.KEY... for a value that has the
// name KEY within the variable, function or TYPE.METHOD that NAME is. A value that is a call with one constant as its
// argument is that constant.
func (c *constants) find(reference string) ([]measure, error) {
	slash := strings.LastIndex(reference, "/")
	names := strings.Split(reference[slash+1:], ".")
	if len(names) < 2 {
		return nil, fmt.Errorf("%q is no reference: write DIRECTORY.NAME", reference)
	}
	s, err := c.load(reference[:slash+1] + names[0])
	if err != nil {
		return nil, err
	}
	object := s.types.Scope().Lookup(names[1])
	keys := names[2:]
	if typeName, ok := object.(*types.TypeName); ok && len(keys) > 0 {
		object, _, _ = types.LookupFieldOrMethod(typeName.Type(), true, s.types, keys[0])
		keys = keys[1:]
	}
	gone := fmt.Errorf("%s is gone: look for what took its place, and change limits.md.tmpl", reference)
	if object == nil {
		return nil, gone
	}
	if len(names) == 2 {
		named, ok := object.(*types.Const)
		if !ok || named.Val().Kind() == constant.Unknown {
			return nil, fmt.Errorf("%s is no constant, or is made of a package that is not in standardPackages", reference)
		}
		return []measure{{value: named.Val(), duration: isDuration(named.Type())}}, nil
	}
	var values []measure
	s.within(s.declaration(object.Pos()), keys, func(m measure) {
		if !slices.ContainsFunc(values, func(known measure) bool { return known.text() == m.text() }) {
			values = append(values, m)
		}
	})
	if len(values) == 0 {
		return nil, gone
	}
	return values, nil
}

// declaration is the one that a position is in.
func (s *source) declaration(position token.Pos) ast.Node {
	for _, file := range s.files {
		for _, d := range file.Decls {
			if d.Pos() > position || position >= d.End() {
				continue
			}
			general, ok := d.(*ast.GenDecl)
			if !ok {
				return d
			}
			for _, spec := range general.Specs {
				if spec.Pos() <= position && position < spec.End() {
					return spec
				}
			}
		}
	}
	return nil
}

// within calls found with the values behind a path of keys: what a composite literal has under the key, what is
// assigned to it, and what follows its address in a list, such as in setDefault(&l.HelloBytes, 16<<10).
func (s *source) within(node ast.Node, keys []string, found func(measure)) {
	if node == nil {
		return
	}
	if len(keys) == 0 {
		if e, ok := node.(ast.Expr); ok {
			found(s.value(e))
		}
		return
	}
	follow := func(key, value ast.Expr) {
		if nameOf(key) == keys[0] {
			s.within(value, keys[1:], found)
		}
	}
	pair := func(list []ast.Expr) {
		if len(list) != 2 {
			return
		}
		if address, ok := list[0].(*ast.UnaryExpr); ok && address.Op == token.AND {
			follow(address.X, list[1])
		}
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			follow(n.Key, n.Value)
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && len(n.Rhs) == 1 {
				follow(n.Lhs[0], n.Rhs[0])
			}
		case *ast.CallExpr:
			pair(n.Args)
		case *ast.CompositeLit:
			pair(n.Elts)
		}
		return true
	})
}

// value of an expression.
func (s *source) value(e ast.Expr) measure {
	if t := s.info.Types[e]; t.Value != nil && t.Value.Kind() != constant.Unknown {
		return measure{value: t.Value, duration: isDuration(t.Type)}
	}
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
		if m := s.value(call.Args[0]); m.value != nil {
			return m
		}
	}
	return measure{source: types.ExprString(e)}
}

// nameOf is the name that an expression ends in.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func isDuration(t types.Type) bool { return t != nil && t.String() == "time.Duration" }
