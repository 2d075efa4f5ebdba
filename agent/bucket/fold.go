// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"strings"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// folding finds names that a server takes for one which differ in case: the first in order is stored, and what comes
// after it is left out. Otherwise the one would have the content of the other.
type folding struct {
	// open are the directories that the last entry is in, with the names in them as the server sees them.
	open []foldedDirectory
	// left are paths that were left out. Hard links to them are, too.
	left map[string]bool
}

type foldedDirectory struct {
	path  string
	names map[string]bool
}

// omit reports whether an entry is left out, and whether it is counted: what is in a directory that is left out is not.
// Entries come in the order of tree.Compare.
func (f *folding) omit(e *tree.Entry) (omitted, counted bool, err error) {
	if f == nil || e.Path == tree.Root {
		return false, false, nil
	}
	parent, name := tree.Split(e.Path)
	if f.left[parent] {
		return true, false, f.leave(e.Path)
	}
	for len(f.open) > 0 && f.open[len(f.open)-1].path != parent {
		last := f.open[len(f.open)-1].path
		if last == tree.Root || tree.Within(parent, last) {
			break
		}
		f.open = f.open[:len(f.open)-1]
	}
	if len(f.open) == 0 || f.open[len(f.open)-1].path != parent {
		f.open = append(f.open, foldedDirectory{parent, make(map[string]bool)})
	}
	names := f.open[len(f.open)-1].names
	folded := strings.ToLower(strings.ToUpper(name))
	if names[folded] || e.Type == tree.HardLink && f.left[e.Target] {
		return true, true, f.leave(e.Path)
	}
	names[folded] = true
	return false, false, f.bounded(len(names))
}

func (f *folding) leave(path string) error {
	f.left[path] = true
	return f.bounded(len(f.left))
}

// bounded fails if more would have to be remembered than the names of a directory.
func (f *folding) bounded(n int) error {
	if n <= objectstore.DefaultMaxNames {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT,
		"the store takes upper and lower case for one, and more than %d names are in one directory or differ in nothing "+
			"else: use a store that tells them apart", objectstore.DefaultMaxNames)
}
