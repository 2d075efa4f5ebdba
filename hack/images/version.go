// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// sources are the paths that the content of an image depends on.
var sources = []string{
	"agent", "api", "controllers", "go.mod", "go.sum", "hack/engines", "hack/images", "hack/isa-l", "hack/zlib-ng",
	"hack/zstd",
}

// sourceVersion names the version of the tree at root: the Git tag when the tree is exactly that, else dev- and a hash
// of the source. The second result is true when the name stands for the content, so that two trees of that name are
// equal.
func sourceVersion(ctx context.Context, root string) (string, bool, error) {
	if tag := gitTag(ctx, root); tag != "" {
		return tag, false, nil
	}
	h, err := sourceHash(root)
	if err != nil {
		return "", false, err
	}
	return "dev-" + h[:12], true, nil
}

// gitTag is the tag of a clean checkout, or empty. A tree without Git is not an error.
func gitTag(ctx context.Context, root string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--tags", "--exact-match", "--dirty").Output()
	tag := strings.TrimSpace(string(out))
	if err != nil || strings.HasSuffix(tag, "-dirty") {
		return ""
	}
	return tag
}

// sourceHash hashes names and contents of what images are built from, tests left out, and the toolchain's version.
func sourceHash(root string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	for _, s := range sources {
		err := filepath.WalkDir(filepath.Join(root, s), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(d.Name(), "_test.go"):
				return nil
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return hashFile(h, rel, path)
		})
		if err != nil {
			return "", fmt.Errorf("hashing %s: %w", s, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashFile adds a name and a content to w, each so delimited that no two lists of files give the same stream.
func hashFile(w io.Writer, rel, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%q %x\n", rel, content.Sum(nil))
	return err
}
