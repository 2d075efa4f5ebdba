// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo

import "strings"

// IndexSuffix ends the names of indexes: that of the file a.gz is .a.gz.lgci beside it.
const IndexSuffix = ".lgci"

// LongestName is the length in bytes of the longest name of a plain file whose index has a name, too, in a directory
// whose names have at most so many bytes.
func (f Form) LongestName(most int) int { return most - len(f.IndexName("")) }

// suffix ends the names of files that rest.
func (f Form) suffix() string {
	switch f {
	case Zstd:
		return ".zst"
	case Plain:
		return ""
	default:
		return ".gz"
	}
}

// Name returns under which name, or path, a file rests.
func (f Form) Name(name string) string { return name + f.suffix() }

// IndexName returns the name of the index of a file, which is beside what rests. So does IndexPath for a path.
func (f Form) IndexName(name string) string { return "." + f.Name(name) + IndexSuffix }

// IndexPath is IndexName for a path.
func (f Form) IndexPath(path string) string {
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i] + f.IndexName(path[i:])
}

// PlainName returns of which file a name, or the name of an index, is. ok is false for names of neither.
func (f Form) PlainName(name string) (plain string, ok bool) {
	plain, index := strings.CutSuffix(name, IndexSuffix)
	if index {
		if plain, index = strings.CutPrefix(plain, "."); !index {
			return "", false
		}
	}
	plain, ok = strings.CutSuffix(plain, f.suffix())
	return plain, ok && plain != ""
}
