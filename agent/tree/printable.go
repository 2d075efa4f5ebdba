// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strconv"
	"unicode/utf8"
)

// printable returns a path as UTF-8 of bounded length, quoted when it is not UTF-8.
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
	if !utf8.ValidString(path) {
		path = strconv.Quote(path)
	}
	if cut {
		path += "..."
	}
	return path
}
