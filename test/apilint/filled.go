// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// filled collects the fields of structs that code gives a value: in a composite literal, by an assignment, or by
// handing out their address. A value that is written there as zero, such as nil or "", clears a field and does not
// count.
func filled(files []*ast.File, info *types.Info, into map[*types.Var]bool) {
	note := func(e ast.Expr) {
		for {
			switch x := ast.Unparen(e).(type) {
			case *ast.IndexExpr:
				e = x.X
				continue
			case *ast.SelectorExpr:
				if s := info.Selections[x]; s != nil && s.Kind() == types.FieldVal {
					if field, ok := s.Obj().(*types.Var); ok {
						into[field.Origin()] = true
					}
				}
			}
			return
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if len(n.Lhs) != len(n.Rhs) || !zero(info, n.Rhs[i]) {
						note(left)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.CompositeLit:
				literal(n, info, into)
			}
			return true
		})
	}
}

func literal(n *ast.CompositeLit, info *types.Info, into map[*types.Var]bool) {
	made := info.TypeOf(n)
	if made == nil {
		return
	}
	if pointer, ok := made.Underlying().(*types.Pointer); ok {
		made = pointer.Elem() // an element of a slice of pointers, written without its type
	}
	structure, ok := made.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, element := range n.Elts {
		if pair, keyed := element.(*ast.KeyValueExpr); keyed {
			name, _ := pair.Key.(*ast.Ident)
			if field, ok := info.ObjectOf(name).(*types.Var); ok && !zero(info, pair.Value) {
				into[field.Origin()] = true
			}
		} else if !zero(info, element) {
			into[structure.Field(i).Origin()] = true
		}
	}
}

// zero reports whether an expression is written as the zero value of its type.
func zero(info *types.Info, e ast.Expr) bool {
	value := info.Types[e]
	if value.IsNil() {
		return true
	}
	if value.Value == nil {
		return false
	}
	switch value.Value.Kind() {
	case constant.String:
		return constant.StringVal(value.Value) == ""
	case constant.Bool:
		return !constant.BoolVal(value.Value)
	case constant.Int, constant.Float:
		return constant.Sign(value.Value) == 0
	default:
		return false
	}
}

// unfilled returns the fields below the field Status of a package's types that are not filled, by their first path.
// Structs of other packages are not looked into, and neither are those that are below a field Spec as well: users fill
// them, and status has copies of the whole.
func unfilled(api *types.Package, filled map[*types.Var]bool) []string {
	users := map[*types.Named]bool{}
	walk(api, "Spec", users, func(*types.Named, *types.Var, string) {})
	found := map[*types.Var]string{}
	walk(api, "Status", users, func(of *types.Named, field *types.Var, path string) {
		if !filled[field.Origin()] && !field.Embedded() {
			found[field] = fmt.Sprintf("%s.%s, for example %s", of.Obj().Name(), field.Name(), path)
		}
	})
	var list []string
	for _, text := range found {
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// walk visits once each field of the structs of a package that are below a field of that name, and not seen before.
func walk(api *types.Package, name string, seen map[*types.Named]bool, visit func(*types.Named, *types.Var, string)) {
	var down func(t types.Type, path string)
	down = func(t types.Type, path string) {
		switch t := types.Unalias(t).(type) {
		case *types.Pointer:
			down(t.Elem(), path)
		case *types.Slice:
			down(t.Elem(), path+"[]")
		case *types.Map:
			down(t.Elem(), path+"[]")
		case *types.Named:
			structure, ok := t.Underlying().(*types.Struct)
			if !ok || t.Obj().Pkg() != api || seen[t] {
				return
			}
			seen[t] = true
			for field := range structure.Fields() {
				visit(t, field, path+"."+field.Name())
				down(field.Type(), path+"."+field.Name())
			}
		}
	}
	for _, kind := range api.Scope().Names() {
		structure, ok := api.Scope().Lookup(kind).Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for field := range structure.Fields() {
			if field.Name() == name && strings.HasSuffix(field.Type().String(), name) {
				down(field.Type(), kind+"."+name)
			}
		}
	}
}
