// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// printable returns a path for people: UTF-8 of bounded length, quoted as in Go where it is not UTF-8 or has
// characters that are not printed: control characters, which command a terminal, line ends, and those that change the
// direction of text. maxExample bounds what is shown of the path in bytes; escapes may make that four times as long.
func printable(path string) string {
	cut := false
	if len(path) > maxExample {
		path, cut = path[:maxExample], true
		for len(path) > 0 {
			if r, size := utf8.DecodeLastRuneInString(path); r != utf8.RuneError || size != 1 {
				break
			}
			path = path[:len(path)-1]
		}
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return !strconv.IsPrint(r) }) {
		path = strconv.Quote(path)
	}
	if cut {
		path += "..."
	}
	return path
}
