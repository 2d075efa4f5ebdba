// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
)

// name is what a directory has under one name of an entry. See listed.
type name struct {
	objectstore.Child
	sidecar *objectstore.Object
	beside  bool
}

func namesOf(children []objectstore.Child) []name {
	names := make([]name, len(children))
	for i := range children {
		names[i].Child = children[i]
	}
	return names
}

// plainNames returns the names in a directory in the order of those of plain files, without those of indexes.
func (l *lister) plainNames(children []objectstore.Child) []name {
	p := pairing{form: l.form, strict: l.strict, children: children}
	names := make([]name, 0, len(children))
	for i := range children {
		n := name{Child: children[i]}
		if plain, rests := p.plain(n.Name); n.Object != nil && rests {
			if !strings.HasSuffix(n.Name, cargo.IndexSuffix) {
				index := p.find(l.form.IndexName(plain))
				names = append(names, name{Child: objectstore.Child{Name: plain, Object: n.Object}, sidecar: index.Object})
			}
			if n.Object = nil; !n.Directory {
				continue
			}
		}
		names = append(names, n)
	}
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.Name, b.Name) })
	// Under one name there is at most one file that rests, and at most one child of the directory.
	merged := names[:0]
	for _, n := range names {
		last := len(merged) - 1
		if last < 0 || merged[last].Name != n.Name {
			merged = append(merged, n)
			continue
		}
		own, resting := merged[last], n
		if own.sidecar != nil {
			own, resting = resting, own
		}
		resting.beside, resting.Directory = own.Object != nil, own.Directory
		merged[last] = resting
	}
	return merged
}

// pairing finds the objects in a directory that are files in a form with their indexes.
type pairing struct {
	form     cargo.Form
	strict   bool
	children []objectstore.Child // by name
}

// find returns what is under a name; nil: nothing.
func (p *pairing) find(name string) *objectstore.Child {
	i, ok := slices.BinarySearchFunc(p.children, name, func(c objectstore.Child, name string) int {
		return cmp.Compare(c.Name, name)
	})
	if !ok {
		return nil
	}
	return &p.children[i]
}

// object reports whether an object has a name.
func (p *pairing) object(name string) bool {
	c := p.find(name)
	return c != nil && c.Object != nil
}

// plain returns of which file an object or the index beside it is. rests is false unless both are there.
func (p *pairing) plain(name string) (plain string, rests bool) {
	plain, rests = p.form.PlainName(name)
	if !rests || plain == Reserved || tree.CheckPath(plain) != nil || !p.object(p.form.Name(plain)) ||
		!p.object(p.form.IndexName(plain)) {
		return "", false
	}
	if c := p.find(plain); p.strict && c != nil {
		// What only rests of another file does not take the name.
		if _, other := p.plain(plain); c.Directory || !other {
			return "", false
		}
	}
	return plain, true
}
