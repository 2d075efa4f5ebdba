// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filter decides by path what of a tree is moved.
//
// Patterns are those of a .gitignore file, relative to the tree's root:
//
//   - "*" stands for any bytes but "/", "?" for one character but "/", "[a-z]" and "[!a-z]" for one character in or not in a class,
//     "\" takes the meaning from the next character.
//   - A pattern with a "/" at its beginning or in the middle matches from the root, any other at every depth.
//   - A "/" at the end restricts a pattern to directories.
//   - "**/" at the beginning and "/**/" in the middle stand for any number of directories, "/**" at the end for everything in one.
//   - What matches a directory matches everything in it.
//
// An entry moves if an include pattern matches it, or if there are none, and no exclude pattern does. Exclude patterns
// are read in order, and one that begins with "!" takes back what those before it exclude. Other than in a .gitignore
// file, it also takes back what is in an excluded directory: the directory is then made for the sake of what is in it.
// A directory that no include pattern matches is made likewise when something in it moves.
//
// Letters count as they are written; names that are not UTF-8 match byte by byte.
package filter
