// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source tells tests where the tree is that they are part of.
package source

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

var module = regexp.MustCompile(`(?m)^module github\.com/lighterage/lighterage$`)

// Root of the tree: the nearest directory above the working directory that has the operator's go.mod. What the compiler
// noted is no source of it, since tests are compiled with -trimpath. It panics outside of the tree.
var Root = sync.OnceValue(func() string {
	began, err := os.Getwd()
	if err != nil {
		panic(fmt.Sprintf("find the source: %v", err))
	}
	for directory := began; ; directory = filepath.Dir(directory) {
		b, err := os.ReadFile(filepath.Join(directory, "go.mod"))
		if err == nil && module.Match(b) {
			return directory
		}
		if directory == filepath.Dir(directory) {
			panic(fmt.Sprintf("find the source: %s is not within it", began))
		}
	}
})
