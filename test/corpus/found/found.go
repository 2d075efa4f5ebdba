// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package found collects data that every Debian machine has, in the form in which
// they would travel: as a tar of files, in order of their paths. What it finds
// depends on the machine, so results state the size and the digest.
package found

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Corpus is one kind of data of this machine.
type Corpus struct {
	Name string
	// About says where the data come from.
	About string
	roots func(context.Context) ([]string, error)
	// wanted chooses among regular files that everybody may read.
	wanted func(name string, content []byte) bool
}

// ErrTooLittle says that the machine has too few files of a kind to measure with.
var ErrTooLittle = errors.New("too little data on this machine")

const (
	// leastBytes is what a corpus must have.
	leastBytes = 1 << 20
	// A file beyond this length would be most of a corpus by itself.
	longestFile = 4 << 20
)

// All returns the kinds of data that are looked for.
func All() []Corpus {
	return []Corpus{
		{
			Name: "programs", About: "programs in /usr/bin (ELF), as a tar",
			roots:  paths("/usr/bin"),
			wanted: func(_ string, content []byte) bool { return bytes.HasPrefix(content, []byte("\x7fELF")) },
		},
		{
			Name: "text", About: "licences, copyrights, dictionaries and locales of /usr/share, as a tar",
			roots: paths(
				"/usr/share/common-licenses", "/usr/share/dict", "/usr/share/doc", "/usr/share/i18n/locales", "/usr/share/perl",
			),
			wanted: func(_ string, content []byte) bool { return isText(content) },
		},
		{
			Name: "go", About: "Go's own source (*.go), as a tar",
			roots: func(ctx context.Context) ([]string, error) {
				out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
				if err != nil {
					return nil, fmt.Errorf("ask go where its source is: %w", err)
				}
				return []string{filepath.Join(strings.TrimSpace(string(out)), "src")}, nil
			},
			wanted: func(name string, _ []byte) bool { return strings.HasSuffix(name, ".go") },
		},
	}
}

func paths(roots ...string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return roots, nil }
}

func isText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// Collect returns at most limit bytes. It fails with ErrTooLittle on a machine that
// has almost nothing of the kind.
func (c Corpus) Collect(ctx context.Context, limit int) ([]byte, error) {
	roots, err := c.roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect the corpus %s: %w", c.Name, err)
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil && path == root && errors.Is(err, fs.ErrNotExist):
				return fs.SkipAll
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case out.Len() >= limit:
				return fs.SkipAll
			case !entry.Type().IsRegular():
				return nil
			}
			return c.add(archive, path, entry)
		})
		if err != nil {
			return nil, fmt.Errorf("collect the corpus %s from %s: %w", c.Name, root, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("collect the corpus %s: %w", c.Name, err)
	}
	if out.Len() < min(leastBytes, limit) {
		return nil, fmt.Errorf(
			"collect the corpus %s: %w: %d bytes in %s", c.Name, ErrTooLittle, out.Len(), strings.Join(roots, ", "),
		)
	}
	return out.Bytes()[:min(limit, out.Len())], nil
}

// add writes one file, with a header that says nothing of this machine, if it is wanted.
func (c Corpus) add(archive *tar.Writer, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if info.Size() == 0 || info.Size() > longestFile || info.Mode().Perm()&0o004 == 0 {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !c.wanted(path, content) {
		return nil
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Size: int64(len(content)), Mode: 0o644,
		Format: tar.FormatPAX,
	}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("write the header of %s: %w", path, err)
	}
	if _, err := archive.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
