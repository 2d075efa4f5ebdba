// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// Root is the path of a tree's root.
	Root = "."
	// StagingName is the directory at a destination's root in which files grow until they get their names. No entry at
	// the root may be called so, and walks leave it out there. Deeper in a tree it is a name like any other.
	StagingName = ".lighterage-staging"

	// lostAndFound is a directory of the file system's own at the root of a volume.
	lostAndFound = "lost+found"

	// MaxPath is the kernel's limit for a path in bytes, without the final NUL.
	MaxPath = 4095
	// MaxName is the kernel's limit for an element of a path in bytes.
	MaxName = 255
)

var (
	errPathEmpty    = errors.New("it is empty")
	errPathLong     = fmt.Errorf("it is longer than %d bytes", MaxPath)
	errPathNUL      = errors.New("it contains a NUL byte")
	errPathAbsolute = errors.New("it is absolute")
	errElementEmpty = errors.New("it has an empty element")
	errElementLong  = fmt.Errorf("an element is longer than %d bytes", MaxName)
	errElementDots  = errors.New(`it has an element "." or ".."`)
	errElementStage = fmt.Errorf("it is in the reserved directory %q", StagingName)
)

// CheckPath returns nil if path is Root or a relative path that stays below the root whatever the tree contains.
func CheckPath(path string) error {
	switch {
	case path == Root:
		return nil
	case path == "":
		return errPathEmpty
	case len(path) > MaxPath:
		return errPathLong
	case strings.IndexByte(path, 0) >= 0:
		return errPathNUL
	case path[0] == '/':
		return errPathAbsolute
	}
	first := true
	for rest, more := path, true; more; first = false {
		var element string
		element, rest, more = strings.Cut(rest, "/")
		switch {
		case element == "":
			return errElementEmpty
		case len(element) > MaxName:
			return errElementLong
		case element == "." || element == "..":
			return errElementDots
		case element == StagingName && first:
			return errElementStage
		}
	}
	return nil
}

// Compare orders paths as a walk finds them: Root first, then by element, so that a directory comes directly before
// what is in it. Elements compare by bytes.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	if a == Root {
		return -1
	}
	if b == Root {
		return 1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		// A separator ends an element and so comes before all else; no path contains a NUL.
		x, y := a[i], b[i]
		if x == '/' {
			x = 0
		}
		if y == '/' {
			y = 0
		}
		if x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// Within reports whether a path is below a directory.
func Within(path, directory string) bool {
	return directory == Root && path != Root || strings.HasPrefix(path, directory+"/")
}

// Split returns the directory that contains path, Root for the first level, and the last element. Root's parent is
// Root.
func Split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return Root, path
	}
	return path[:i], path[i+1:]
}

func join(parent, name string) string {
	if parent == Root {
		return name
	}
	return parent + "/" + name
}
