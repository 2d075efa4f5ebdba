// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/cmd/lighterage-cargo/command"
)

// TestDocumentedCommandLines: what people copy from the documentation are valid command lines. The files are missing.
func TestDocumentedCommandLines(t *testing.T) {
	docs, err := filepath.Abs("../../../../docs")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	lines := 0
	err = filepath.WalkDir(docs, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "reference": // It is made of the commands.
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		shell := false
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "```") {
				shell = strings.HasPrefix(line, "```sh")
				continue
			}
			arguments, found := strings.CutPrefix(line, "lighterage-cargo ")
			if !shell || !found {
				continue
			}
			lines++
			arguments, _, _ = strings.Cut(arguments, "#")
			arguments, _, _ = strings.Cut(arguments, "|")
			if _, err := run(t, nil, "", strings.Fields(arguments)...); command.ExitCode(err) == 2 {
				t.Errorf("%s: %s: %v", filepath.Base(path), strings.TrimSpace(line), err)
			}
		}
		return nil
	})
	if err != nil || lines < 10 {
		t.Errorf("%d command lines, %v", lines, err)
	}
}
