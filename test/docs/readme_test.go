// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// maxReadme is how many bytes README.md may have, so that it is read in two minutes.
const maxReadme = 7000

func TestReadmeIsShort(t *testing.T) {
	text := read(t, "README.md")
	if len(text) > maxReadme {
		t.Errorf(
			"README.md has %d bytes, and %d are allowed: move what is not for the first two minutes to docs/", len(text),
			maxReadme,
		)
	}
}

// TestMakeTargets holds every make target that a document names, in an inline code span or a shell block, against the
// Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	checked := 0
	for _, file := range documents(t) {
		for _, target := range makeTargets(read(t, file)) {
			checked++
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).MatchString(makefile) {
				t.Errorf("%s names make %s, and the Makefile has no such target", file, target)
			}
		}
	}
	if checked == 0 {
		t.Error("found no make target in any document")
	}
}

func TestMakeTargetsAreFound(t *testing.T) {
	const text = "Run `make demo` or `A=1 make test-unit`, not `make TARGET`; we make tea.\n\n```sh\nmake images " +
		"REGISTRY=x\nA=~/a B=b make demo-two # make tea\n```\n\n```\nmake nothing\n```\n"
	if got, want := makeTargets(text), []string{"demo", "test-unit", "images", "demo-two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var (
	makeSpan  = regexp.MustCompile("`(?:[A-Z_]+=\\S+ )*make ([a-z][a-z0-9-]*)")
	makeLine  = regexp.MustCompile(`(?m)^\s*(?:[A-Z_]+=\S+ )*make ([a-z][a-z0-9-]*)`)
	shellCode = regexp.MustCompile("(?m)^ *```(?:sh|bash)\n((?:.|\n)*?)\n *```")
)

// makeTargets returns the targets of calls of make in a document: those in inline code, then those in shell blocks.
func makeTargets(text string) []string {
	var targets []string
	for _, match := range makeSpan.FindAllStringSubmatch(withoutBlocks(text), -1) {
		targets = append(targets, match[1])
	}
	for _, block := range shellCode.FindAllStringSubmatch(text, -1) {
		for _, match := range makeLine.FindAllStringSubmatch(block[1], -1) {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// documents returns the paths of all Markdown files of the tree, relative to its root.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cluster", "bin", "dist"}, entry.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no documents")
	}
	return files
}

// read returns a file of the tree.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
