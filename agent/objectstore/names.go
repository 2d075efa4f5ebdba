// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the longest key in bytes, prefix included.
const MaxKey = 1024

// ErrName says that a name cannot be that of an object.
var ErrName = errors.New("the name cannot be that of an object")

// CheckName reports whether an object may have that name under a prefix: a relative path of UTF-8 without empty
// segments, `.`, `..`, backslashes and control characters, of at most MaxKey bytes with the prefix. Servers that keep
// objects as files resolve, merge or reject such names, so that two names could be one object. Errors are ErrName.
func CheckName(prefix, name string) error {
	if why := unfitName(name); why != "" {
		return fmt.Errorf("%w: %q %s", ErrName, shorten(name), why)
	}
	if n := len(join(prefix, name)); n > MaxKey {
		return fmt.Errorf("%w: %q has %d bytes with the prefix, and the limit is %d", ErrName, shorten(name), n, MaxKey)
	}
	return nil
}

func unfitName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsRune(name, '\\'):
		return "contains a backslash"
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return "contains control characters"
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch segment {
		case "":
			return "has an empty segment"
		case ".", "..":
			return "has the segment " + segment
		}
	}
	return ""
}

// join is the key of a name.
func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "/" + name
}
