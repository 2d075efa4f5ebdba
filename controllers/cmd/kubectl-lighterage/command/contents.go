// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lighterage/lighterage/agent/wire/contents"
)

// Directories at the root that are not content: the file system's, and that of a receiving agent.
var notContent = map[string]bool{"lost+found": true, ".lighterage-staging": true}

func newReceiptManifest(p *plugin) *cobra.Command {
	var directory string
	return &cobra.Command{
		Use:   "manifest DIRECTORY",
		Short: "Write the content manifest of a directory",
		Long: `Write the content manifest of a directory, of which a receipt has the SHA-256: a line for each file and
symbolic link with its path, size and digest, separated by NUL bytes. sha256sum of the manifest is the
digest that a receipt states.`,
		Example: "  kubectl lighterage receipt manifest /mnt/ledger-copy > ledger.manifest",
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) != 1 {
				return errors.New("name one directory")
			}
			directory = arguments[0]
			return nil
		},
		RunE: action(func(context.Context) error {
			out := bufio.NewWriter(p.Out)
			if _, err := digestDirectory(directory, out); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return fmt.Errorf("writing the content manifest: %w", err)
			}
			return nil
		}),
	}
}

// verifyContents compares a digest with that of a manifest and that of the files of a directory; names may be empty.
func verifyContents(digest, manifest, directory string) error {
	if manifest != "" {
		f, err := os.Open(manifest)
		if err != nil {
			return fmt.Errorf("opening the content manifest: %w", err)
		}
		defer f.Close()
		hash := sha256.New()
		if _, err := io.Copy(hash, f); err != nil {
			return fmt.Errorf("reading the content manifest: %w", err)
		}
		if found := hex.EncodeToString(hash.Sum(nil)); found != digest {
			return fmt.Errorf("the content manifest %s has the SHA-256 %s, and the receipt is of %s", manifest, found, digest)
		}
	}
	if directory != "" {
		found, err := digestDirectory(directory, nil)
		if err != nil {
			return err
		}
		if found != digest {
			return fmt.Errorf("the files in %s have the content manifest %s, and the receipt is of %s: a file differs, is "+
				"missing, or was not part of the run", directory, found, digest)
		}
	}
	return nil
}

// digestDirectory computes the content manifest of a directory, which is written to the writer unless that is nil.
func digestDirectory(root string, to io.Writer) (string, error) {
	digest, err := contents.NewDigest(to)
	if err != nil {
		return "", fmt.Errorf("beginning the content manifest: %w", err)
	}
	// Names of a directory come in the order of their bytes and a directory before what is in it, as in a manifest.
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return fmt.Errorf("naming %s: %w", name, err)
		}
		if entry.IsDir() && notContent[path] {
			return filepath.SkipDir
		}
		var found contents.Entry
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return fmt.Errorf("reading a symbolic link: %w", err)
			}
			found = contents.LinkTo(path, target)
		case entry.Type().IsRegular():
			if found, err = digestFile(name, path); err != nil {
				return err
			}
		default:
			return nil
		}
		return digest.Add(&found) //nolint:wrapcheck // it names the entry
	})
	if err != nil {
		return "", fmt.Errorf("reading the directory %s: %w", root, err)
	}
	return hex.EncodeToString(digest.Sum()), nil
}

func digestFile(name, path string) (contents.Entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return contents.Entry{}, fmt.Errorf("opening a file: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err != nil {
		return contents.Entry{}, fmt.Errorf("reading a file: %w", err)
	}
	found := contents.Entry{Path: path, Size: uint64(max(0, n))}
	hash.Sum(found.SHA256[:0])
	return found, nil
}

// quoted is text that a terminal takes as text.
func quoted(text string) string {
	if q := strconv.Quote(text); strings.Trim(q, `"`) != text {
		return q
	}
	return text
}
